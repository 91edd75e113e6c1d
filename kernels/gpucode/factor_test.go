package gpucode

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/launch"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// blockCase is a step over two matrices inside larger ones, with buffers of random numbers.
func blockCase(r *rand.Rand, f *launch.FactorBlock, m, n int64) (params []uint64, bufs [][]byte) {
	l := f.Layout()
	const at, gap = 3, 2
	side := at + max(m, n) + gap
	params = make([]uint64, len(l.Params))
	set := func(p int, v int64) {
		if p >= 0 {
			params[p] = uint64(v)
		}
	}
	set(l.Matrices, 2)
	set(l.M, m)
	set(l.N, n)
	set(l.At, at)
	for i, s := range [][4]int{l.X, l.Y, l.Z} {
		for j, v := range []int64{side * side, side, 1, int64(i) * (side + 1)} {
			set(s[j], v)
		}
	}
	if f.Same { // the triangle and the right-hand side are apart
		set(l.X[0], 2*side*side)
		set(l.Y[0], 2*side*side)
		set(l.Y[3], side*side)
	}
	set(l.PivotStride, side)
	set(l.Skip, 1)
	set(l.Width, 2)
	for b, t := range l.Bufs {
		v := make([]byte, 4*side*side*int64(t.Type.Size()))
		for i := range int64(len(v) / t.Type.Size()) {
			x := r.NormFloat64()
			if f.Op == launch.BlockTriangular && b == l.BufY {
				x *= 0.1 // solutions of random triangles grow without bound
			}
			if b == l.BufX && f.Op == launch.BlockCholesky || b == l.BufY && f.Op == launch.BlockTriangular {
				if c := i % (side * side); c/side == c%side || f.Op == launch.BlockTriangular && (c-side-1)%(side+1) == 0 {
					x = 3 * float64(m)
				}
			}
			bits := ir.EncodeInt(ir.I32, 1+min(int64(math.Abs(x)*4), m-1))
			switch t.Type {
			case ir.F32:
				bits = ir.EncodeFloat(ir.F32, x)
			case ir.I64:
				bits = 0
			}
			loopir.StoreBits(t.Type, v, i, bits)
		}
		if b == l.BufS && f.Op != launch.BlockStatus {
			clear(v)
		}
		bufs = append(bufs, v)
	}
	return params, bufs
}

// TestFactorBlocksAsChosen: programs in workgroup memory and programs in buffers compute what the reference does, and
// threads wait where they must.
func TestFactorBlocksAsChosen(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range []launch.FactorBlock{
		{Op: launch.BlockCholesky}, {Op: launch.BlockLU}, {Op: launch.BlockSwap}, {Op: launch.BlockTriangular, Same: true},
		{Op: launch.BlockTriangular, Upper: true}, {Op: launch.BlockTriangular, Unit: true}, {Op: launch.BlockQR},
		{Op: launch.BlockPermutation}, {Op: launch.BlockStatus},
	} {
		for _, size := range [][2]int64{{1, 1}, {5, 5}, {9, 4}, {40, 3}, {3, 40}, {32, 32}} {
			m, n := size[0], size[1]
			if (f.Op == launch.BlockCholesky && m != n) || (f.Op == launch.BlockQR && m < n) ||
				(f.Op == launch.BlockTriangular && m > FactorSide(Caps{})) ||
				(f.Op == launch.BlockLU && n > 32) || (f.Op == launch.BlockPermutation && m < n) {
				continue
			}
			params, bufs := blockCase(r, &f, m, n)
			want := make([][]byte, len(bufs))
			for i := range bufs {
				want[i] = slices.Clone(bufs[i])
			}
			fault, err := f.Interpret(params, want)
			require.NoError(t, err)
			for _, cells := range []bool{true, false} {
				o := ChooseFactorBlock(&f, params, Caps{I64: true, Software: true})
				if !cells && f.Op != launch.BlockCholesky && f.Op != launch.BlockTriangular {
					o.Cells = 0
				}
				t.Run(fmt.Sprintf("%+v_%v_%v", f, size, o.Cells), func(t *testing.T) {
					p, err := FromFactorBlock(&f, o)
					require.NoError(t, err)
					require.LessOrEqual(t, p.SharedBytes(), 16384)
					got := make([][]byte, len(bufs))
					for i := range bufs {
						got[i] = slices.Clone(bufs[i])
					}
					have, err := gpuir.Interpret(p, params, got)
					require.NoError(t, err)
					require.Equal(t, fault, have)
					for b, buf := range f.Buffers() {
						if buf.Type != ir.F32 {
							require.Equal(t, want[b], got[b])
							continue
						}
						for i := range int64(len(want[b]) / 4) {
							x, y := ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, want[b], i)),
								ir.DecodeFloat(ir.F32, loopir.LoadBits(ir.F32, got[b], i))
							require.InDelta(t, x, y, 2e-5*max(1, math.Abs(x)), "buffer %d, element %d", b, i)
						}
					}
				})
			}
		}
	}
}
