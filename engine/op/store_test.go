package op_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// view is a view of base b, of a dense value of n elements.
func view(b uint32, n int64, d ir.DType, dev ir.DeviceID, offset int64, shape, stride []int64) op.Val {
	av := ir.InternAval(d, dev, ir.DenseLayout([]int64{n}))
	l := ir.InternLayout(shape, stride)
	return op.Val{Kind: op.Tensor, Value: 1, Aval: av.ID, Layout: l.ID, Offset: offset, Base: b}
}

// An in-place call refuses a result that does not fit the written tensor, and operands that share only some of its
// elements.
func TestCheckInPlace(t *testing.T) {
	flat := func(b uint32, offset, n int64) op.Val {
		return view(b, 8, ir.F32, ir.CPU, offset, []int64{n}, []int64{1})
	}
	self := flat(1, 0, 4)
	result := flat(0, 0, 4)
	elsewhere := view(0, 4, ir.F32, ir.CPU+1, 0, []int64{4}, []int64{1})
	double := view(0, 4, ir.F64, ir.CPU, 0, []int64{4}, []int64{1})
	ints := view(1, 8, ir.I64, ir.CPU, 0, []int64{4}, []int64{1})
	square := view(1, 8, ir.F32, ir.CPU, 0, []int64{2, 2}, []int64{2, 1})
	turned := view(1, 8, ir.F32, ir.CPU, 0, []int64{2, 2}, []int64{1, 2})
	gaps := view(1, 8, ir.F32, ir.CPU, 1, []int64{4}, []int64{2})
	for name, c := range map[string]struct {
		d     op.Def
		v     op.Val
		in    []op.Val
		error string
	}{
		"fits":                  {v: result, in: []op.Val{self}},
		"another shape":         {v: flat(0, 0, 3), in: []op.Val{self}, error: "the broadcast shape [3]"},
		"another device":        {v: elsewhere, in: []op.Val{self}, error: "at least two devices, cpu and"},
		"a wider float is cast": {v: double, in: []op.Val{self}},
		"a float in integers":   {v: result, in: []op.Val{ints}, error: "result type Float can't be cast to"},
		"exact dtypes": {d: op.Def{ExactOut: true}, v: double, in: []op.Val{self},
			error: "Found dtype Float but"},
		"the in-place form alone casts": {d: op.Def{InPlaceOnly: true}, v: result, in: []op.Val{ints}},
		"the same view":                 {v: result, in: []op.Val{self, self}},
		"another base":                  {v: result, in: []op.Val{self, flat(2, 2, 4)}},
		"elements beside it":            {v: result, in: []op.Val{self, flat(1, 4, 4)}},
		"some of its elements":          {v: result, in: []op.Val{self, flat(1, 2, 4)}, error: "a single memory location"},
		"a view with gaps":              {v: result, in: []op.Val{self, gaps}},
		"its elements in another order": {v: square, in: []op.Val{square, turned}, error: "a single memory location"},
	} {
		t.Run(name, func(t *testing.T) {
			c.d.Parsed = &op.Sig{Name: "f"}
			err := c.d.CheckInPlace(&c.v, c.in, 0)
			if c.error == "" {
				require.Nil(t, err)
				return
			}
			require.NotNil(t, err)
			require.Equal(t, ir.ErrRuntime, err.Code)
			require.Contains(t, err.Msg, c.error)
		})
	}
}

// An out= tensor that must lie apart shares no element with an operand, also where both are one view.
func TestCheckApart(t *testing.T) {
	flat := func(b uint32, offset, n int64) op.Val {
		return view(b, 8, ir.F32, ir.CPU, offset, []int64{n}, []int64{1})
	}
	out := flat(1, 2, 2)
	for name, c := range map[string]struct {
		in     op.Val
		refuse bool
	}{
		"the same view":     {flat(1, 2, 2), true},
		"some elements":     {flat(1, 3, 3), true},
		"all of the memory": {flat(1, 0, 8), true},
		"before it":         {flat(1, 0, 2), false},
		"behind it":         {flat(1, 4, 2), false},
		"another base":      {flat(2, 2, 2), false},
		"no tensor":         {op.Val{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := op.CheckApart(&out, []op.Val{c.in})
			if !c.refuse {
				require.Nil(t, err)
				return
			}
			require.NotNil(t, err)
			require.Contains(t, err.Msg, "a single memory location")
		})
	}
}
