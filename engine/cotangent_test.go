package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/autograd"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// val resolves a tensor without a history.
func (r *rig) val(x T) op.Val {
	v, err := r.e.session.Resolve(uint64(x))
	require.Nil(r.t, err)
	v.Base = 0
	return v
}

// written returns base with value written to a view of it, recorded outside of a call.
func (r *rig) written(base op.Val, value T, stride []int64, offset int64) op.Val {
	v := r.val(value)
	return prim.StridedScatter(r.e.session, base, v, ir.InternLayout(v.Shape(), stride), offset)
}

func (r *rig) zeros(shape ...int64) op.Val { return prim.Zeros(r.e.session, ir.F32, 0, shape) }

// added reads the sum of two cotangents.
func (r *rig) added(x, y op.Val) []float32 {
	sum := autograd.AddCotangents(r.e.graph, r.e.session, x, y)
	return r.read(T(r.e.session.Wrap(&sum, nil)))
}

// TestPartsOfTransposedZerosAreNotJoined: parts are concatenated only if each was written to the previous result
// itself, rather than to a view of it.
func TestPartsOfTransposedZerosAreNotJoined(t *testing.T) {
	r := newRig(t)
	var rows [3]T
	for i := range rows {
		v := float32(i + 1)
		rows[i] = r.floats([]int64{1, 3}, v, v, v)
	}
	dense := []int64{3, 1}
	first := r.written(r.zeros(3, 3), rows[0], dense, 6)
	x := r.written(prim.Permute(r.e.session, first, []int64{1, 0}), rows[1], dense, 3)
	y := r.written(r.zeros(3, 3), rows[2], dense, 0)
	require.Equal(t, []float32{3, 3, 4, 2, 2, 2, 0, 0, 1}, r.added(x, y))
}

// TestOverlappingWriteIsNoSum: where written values overlap, the last one counts.
func TestOverlappingWriteIsNoSum(t *testing.T) {
	r := newRig(t)
	value, ones := r.floats([]int64{2, 2}, 3, 3, 3, 3), r.floats(nil, 1, 1, 1, 1)
	require.Equal(t, []float32{1, 4, 4, 4}, r.added(r.val(ones), r.written(r.zeros(4), value, []int64{1, 1}, 1)))
}

// The cotangent of an alias is that of its input: it is not copied into zeros.
func TestTheCotangentOfAnAliasIsNotCopied(t *testing.T) {
	r := newRig(t)
	s := r.e.session
	x := r.val(r.floats([]int64{2, 3}, 1, 2, 3, 4, 5, 6))
	whole, column := ir.DenseLayout([]int64{2, 3}), ir.InternLayout([]int64{2, 1}, []int64{3, 1})
	step := op.ViewOp{Kind: op.ViewStrided}
	require.Equal(t, x, prim.ViewVJP(s, step, x, whole, whole, 0, 0))
	shifted := prim.ViewVJP(s, step, r.val(r.floats([]int64{2, 1}, 7, 8)), whole, column, 0, 1)
	require.Equal(t, []float32{0, 7, 0, 0, 8, 0}, r.read(T(s.Wrap(&shifted, nil))))
}
