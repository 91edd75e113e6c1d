package prim

import (
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

type inferFunc = func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error)

// accepts says for which dtypes a primitive is defined.
type accepts uint8

const (
	floats  accepts = iota
	numbers         // integers and floats
	logical         // integers and bool
	all             // any dtype
)

func (a accepts) has(d ir.DType) bool {
	switch a {
	case floats:
		return d.IsFloat()
	case numbers:
		return d.IsFloat() || d.IsInt()
	case logical:
		return d.IsInt() || d == ir.Bool
	}
	return d != ir.InvalidDType
}

func notImplemented(name string, d ir.DType) error {
	return ir.Errorf(ir.ErrNotImplemented, "\"%s\" not implemented for '%s'", name, d.ScalarType())
}

// elementwise returns the dtype and shape that the tensor operands share.
func elementwise(name string, a accepts, in []op.Val) (op.OutSpec, error) {
	var s op.OutSpec
	found := false
	for i := range in {
		v := &in[i]
		if !v.IsTensor() {
			continue
		}
		if !found {
			s, found = op.OutSpec{DType: v.DType(), Shape: v.Shape()}, true
			continue
		}
		if v.DType() != s.DType {
			return s, ir.Errorf(ir.ErrRuntime, "%s: expected both operands to have the same dtype: got %v and %v", name, s.DType,
				v.DType())
		}
		if !slices.Equal(v.Shape(), s.Shape) {
			return s, ir.Errorf(ir.ErrRuntime, "%s: operands must have one shape: got %s and %s", name, ir.ShapeString(s.Shape),
				ir.ShapeString(v.Shape()))
		}
	}
	if !found {
		return s, ir.Errorf(ir.ErrInternal, "BUG: %s: no tensor operand", name)
	}
	if !a.has(s.DType) {
		return s, notImplemented(name, s.DType)
	}
	return s, nil
}

// mapInfer is the rule of elementwise primitives; result InvalidDType keeps the operands' dtype.
func mapInfer(name string, a accepts, result ir.DType) inferFunc {
	return func(in []op.Val, _ []int64, out []op.OutSpec) ([]op.OutSpec, error) {
		s, err := elementwise(name, a, in)
		if result != ir.InvalidDType {
			s.DType = result
		}
		return append(out, s), err
	}
}

// variantInfer is mapInfer for a primitive with variants; the first attribute is the variant.
func variantInfer(names []string, a accepts, result ir.DType) inferFunc {
	return func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
		return mapInfer(names[attr[0]], a, result)(in, nil, out)
	}
}

// without is shape without the marked dims.
func without(shape []int64, mask []bool) []int64 {
	out := make([]int64, 0, len(shape))
	for i, n := range shape {
		if !mask[i] {
			out = append(out, n)
		}
	}
	return out
}

// reduceInfer is the rule of reductions over a list of dims. identity is false where an empty reduction has no value.
func reduceInfer(name string, a accepts, identity bool) inferFunc {
	return func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
		s, err := elementwise(name, a, in[:1])
		if err != nil {
			return nil, err
		}
		mask, err := ir.DimMask(attr, len(s.Shape))
		if err != nil {
			return nil, err
		}
		for i, m := range mask {
			if m && !identity && s.DType != ir.Bool && s.Shape[i] == 0 {
				return nil, ir.Errorf(ir.ErrIndex, "%s(): Expected reduction dim %d to have non-zero size.", name, i)
			}
		}
		s.Shape = without(s.Shape, mask)
		return append(out, s), nil
	}
}

// dimInfer is the rule of reductions along one dim. Its results are the value, where values is set, and an index.
func dimInfer(name string, values bool) inferFunc {
	return func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
		x := in[0]
		d, err := ir.CheckDim(attr[0], len(x.Shape()))
		if err != nil {
			return nil, err
		}
		shape := x.Shape()
		if len(shape) > 0 {
			if shape[d] == 0 {
				return nil, ir.Errorf(ir.ErrIndex, "%s(): Expected reduction dim %d to have non-zero size.", name, d)
			}
			shape = slices.Concat(shape[:d], shape[d+1:])
		}
		if values {
			out = append(out, op.OutSpec{DType: x.DType(), Shape: shape})
		}
		return append(out, op.OutSpec{DType: ir.I64, Shape: shape}), nil
	}
}

// rowInfer is the rule of primitives that map rows along one dim to rows.
func rowInfer(name string, a accepts) inferFunc {
	return func(in []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
		s, err := elementwise(name, a, in)
		if err != nil {
			return nil, err
		}
		_, err = ir.CheckDim(attr[0], len(s.Shape))
		return append(out, s), err
	}
}

// createInfer is the rule of creation; attributes: dtype, device, shape.
func createInfer(name string, a accepts) inferFunc {
	return func(_ []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
		return createdOf(name, a, ir.DType(attr[0]), attr[2:], out)
	}
}

func createdOf(name string, a accepts, d ir.DType, shape []int64, out []op.OutSpec) ([]op.OutSpec, error) {
	if !a.has(d) {
		return nil, notImplemented(name, d)
	}
	for _, n := range shape {
		if n < 0 {
			return nil, ir.Errorf(ir.ErrRuntime, "Trying to create tensor with negative dimension %d: %s", n,
				ir.ShapeString(shape))
		}
	}
	return append(out, op.OutSpec{DType: d, Shape: slices.Clone(shape)}), nil
}

// i64Scalars types every scalar operand as int64.
func i64Scalars([]op.Val, []op.OutSpec, int) ir.DType { return ir.I64 }
