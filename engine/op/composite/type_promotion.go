package composite

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// fail raises an error while recording; the engine's entry points recover it.
func fail(c ir.Code, format string, args ...any) {
	panic(ir.Errorf(c, format, args...))
}

func typeName(d ir.DType) string { return d.ScalarType() }

// combine merges the dtypes of a category of higher priority with those of a lower one; the categories are tensors with
// dims, 0-dim tensors, numbers. The lower one counts only where its kind is higher (bool < int < float). InvalidDType
// is "none".
func combine(higher, lower ir.DType) ir.DType {
	switch {
	case higher == ir.InvalidDType:
		return lower
	case lower == ir.InvalidDType, higher.IsComplex():
		return higher
	case higher.IsFloat() && lower.IsComplex() && higher.Complex() != ir.InvalidDType:
		return higher.Complex()
	case higher.IsFloat() && !lower.IsComplex():
		return higher
	case higher == ir.Bool, lower.IsInexact():
		return common(higher, lower)
	}
	return higher
}

func join(a, b ir.DType) ir.DType {
	if a == ir.InvalidDType {
		return b
	}
	return common(a, b)
}

// common is the dtype of an operation on a and b. PyTorch has no promotion of its wider unsigned dtypes; here they
// promote where a dtype holds the values of both.
func common(a, b ir.DType) ir.DType {
	d := ir.Promote(a, b)
	if d == ir.InvalidDType {
		fail(ir.ErrRuntime, "Promotion for uint64 and signed integers is not supported, attempted to promote %s and %s",
			typeName(a), typeName(b))
	}
	return d
}

// resultType is torch.result_type of the operands.
func resultType(b op.Builder, vals ...op.Val) ir.DType {
	var dim, zero, number ir.DType
	for i := range vals {
		v := &vals[i]
		switch {
		case v.Kind == op.None:
		case v.IsScalar() || v.Number:
			number = join(number, numberType(b, *v))
		case len(v.Shape()) == 0:
			zero = join(zero, v.DType())
		default:
			dim = join(dim, v.DType())
		}
	}
	return combine(dim, combine(zero, number))
}

// numberType is the dtype of a tensor made from a Python number.
func numberType(b op.Builder, v op.Val) ir.DType {
	if v.Kind == op.ScalarFloat {
		return b.DefaultDType()
	}
	if v.Number {
		return complexDefault(b)
	}
	return v.DType()
}

// complexDefault is the complex dtype of the default dtype.
func complexDefault(b op.Builder) ir.DType {
	if d := b.DefaultDType().Complex(); d != ir.InvalidDType {
		return d
	}
	return ir.C64
}

// cast converts a tensor that has another dtype. Numbers stay as they are: their slot is encoded in the dtype that the
// primitive computes in.
func cast(b op.Builder, v op.Val, d ir.DType) op.Val {
	if !v.IsTensor() || v.DType() == d {
		return v
	}
	v = prim.Cast(b, v, d)
	v.Number = false
	return v
}

// floating casts an integer or bool tensor to the default dtype.
func floating(b op.Builder, v op.Val) op.Val {
	if v.DType().IsInexact() {
		return v
	}
	return prim.Cast(b, v, b.DefaultDType())
}

// floatType is the dtype of an operation whose results are always floats.
func floatType(b op.Builder, d ir.DType) ir.DType {
	if d.IsInexact() {
		return d
	}
	return b.DefaultDType()
}

// tensor makes a 0-dim tensor of a number; tensors stay as they are.
func tensor(b op.Builder, v op.Val, dev ir.DeviceID) op.Val {
	if v.IsTensor() {
		return v
	}
	return prim.Fill(b, v, numberType(b, v), dev, nil)
}

// expand views v in shape, to which v broadcasts.
func expand(b op.Builder, v op.Val, shape []int64) op.Val {
	if !v.IsTensor() || ir.SameShape(v.Shape(), shape) {
		return v
	}
	return prim.Expand(b, v, shape)
}

// commonDevice is the device of an operation: of the first tensor with dims, else of the first tensor, else the
// default.
func commonDevice(b op.Builder, vals []op.Val) ir.DeviceID {
	dev, found := b.DefaultDevice(), false
	for i := range vals {
		if !vals[i].IsTensor() {
			continue
		}
		if len(vals[i].Shape()) > 0 {
			return vals[i].Device()
		}
		if !found || dev == ir.CPU {
			dev, found = vals[i].Device(), true
		}
	}
	return dev
}

// align prepares the operands of an elementwise operation in place. 0-dim CPU tensors move to the common device;
// tensors are cast to d (InvalidDType: not cast) and broadcast. Where every operand is a number the first becomes a
// tensor. It returns the common shape.
func align(b op.Builder, d ir.DType, vals ...*op.Val) []int64 {
	var buf [4]op.Val
	flat := buf[:0]
	tensors := 0
	for _, v := range vals {
		flat = append(flat, *v)
		if v.IsTensor() {
			tensors++
		}
	}
	dev := commonDevice(b, flat)
	if tensors == 0 {
		*vals[0] = tensor(b, *vals[0], dev)
	}
	var shape []int64
	first := true
	for _, v := range vals {
		if !v.IsTensor() {
			continue
		}
		if v.Number {
			*v = cast(b, *v, numberType(b, *v)) // a GPU has no complex128
		}
		if len(v.Shape()) == 0 && v.Device() != dev && v.Device() == ir.CPU {
			*v = prim.ToDevice(b, *v, dev)
		}
		if d != ir.InvalidDType {
			*v = cast(b, *v, d)
		}
		if first {
			shape, first = v.Shape(), false
		} else {
			shape = ir.BroadcastShape(shape, v.Shape())
		}
	}
	for _, v := range vals {
		*v = expand(b, *v, shape)
	}
	return shape
}

// promote aligns two operands in their common dtype, which it returns.
func promote(b op.Builder, x, y *op.Val) ir.DType {
	if x.Kind == op.Tensor && y.Kind == op.Tensor && x.Aval == y.Aval && x.Layout == y.Layout {
		return x.DType()
	}
	d := resultType(b, *x, *y)
	if x.IsTensor() && y.IsScalar() && x.DType() == d || y.IsTensor() && x.IsScalar() && y.DType() == d {
		return d // a tensor and a number: nothing to cast or expand
	}
	align(b, d, x, y)
	return d
}

// dimMask marks the dims of a list; an absent or empty list marks all dims.
func dimMask(dims []int64, rank int) []bool {
	mask, err := ir.DimMask(dims, rank)
	if err != nil {
		panic(err)
	}
	if len(dims) == 0 {
		for i := range mask {
			mask[i] = true
		}
	}
	return mask
}

// maskedDims lists the marked dims, and returns the shape with size 1 for them.
func maskedDims(mask []bool, shape []int64) (dims, kept []int64) {
	kept = append([]int64(nil), shape...)
	for i, m := range mask {
		if m {
			dims = append(dims, int64(i))
			kept[i] = 1
		}
	}
	return dims, kept
}

// widen casts operands of a half dtype d to the dtype that PyTorch computes in, and returns the way back: several steps
// are rounded once, at the end.
func widen(b op.Builder, d ir.DType, vals ...*op.Val) (narrow func(op.Val) op.Val) {
	if d.ComputeType() == d {
		return func(y op.Val) op.Val { return y }
	}
	for _, v := range vals {
		if v.IsTensor() && v.DType() == d {
			*v = prim.Cast(b, *v, d.ComputeType())
		}
	}
	return func(y op.Val) op.Val { return prim.Cast(b, y, d) }
}

// needDim raises PyTorch's error for the size of a dim of a 0-dim tensor.
func needDim(x op.Val, dim int) {
	if len(x.Shape()) == 0 {
		fail(ir.ErrIndex, "Dimension specified as %d but tensor has no dimensions", dim)
	}
}

// unsupported raises PyTorch's error for an operator without a kernel for d.
func unsupported(name string, d ir.DType) {
	fail(ir.ErrNotImplemented, "%q not implemented for '%s'", name, typeName(d))
}

func needFloat(name string, v op.Val) {
	if !v.DType().IsInexact() {
		unsupported(name, v.DType())
	}
}
