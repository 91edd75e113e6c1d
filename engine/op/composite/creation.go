package composite

import (
	"math"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// The keyword parameters of factories.
const factoryParams = ", *, dtype? dtype=None, device? device=None, bool requires_grad=False) -> Tensor"

// options are the values of a factory's keywords.
type options struct {
	dtype  ir.DType
	device ir.DeviceID
}

// factory reads the keywords; d is the dtype where none is given.
func factory(a *op.Args, d ir.DType) options {
	o := options{dtype: d}
	if given := a.DType(); given != ir.InvalidDType {
		o.dtype = given
	}
	dev, given := a.Device()
	if o.device = dev; !given {
		o.device = a.B.DefaultDevice()
	}
	a.Bool() // the engine applies requires_grad to the result
	return o
}

// likeOptions is factory with the tensor's own dtype and device as defaults.
func likeOptions(a *op.Args, x op.Val) options {
	o := options{dtype: x.DType(), device: x.Device()}
	if given := a.DType(); given != ir.InvalidDType {
		o.dtype = given
	}
	if dev, given := a.Device(); given {
		o.device = dev
	}
	a.Bool()
	return o
}

func checkSizes(name string, shape []int64) []int64 {
	for _, n := range shape {
		switch {
		case n < 0 && name == "zeros":
			fail(ir.ErrRuntime, "zeros: Dimension size must be non-negative.")
		case n < 0:
			fail(ir.ErrRuntime, "Trying to create tensor with negative dimension %d: %s", n, ir.ShapeString(shape))
		}
	}
	return shape
}

func filled(b op.Builder, v op.Val, o options, shape []int64) op.Val {
	return prim.Fill(b, asType(b, v, o.dtype), o.dtype, o.device, shape)
}

const notOfData = "the result does not depend on tensor data"

func creation(sig, doc string, where op.Where, eval op.Eval, s []op.Sample, errs ...op.Sample) {
	op.Register(op.Def{Sig: sig, Doc: doc, Where: where, Out: where&op.Method == 0, Eval: eval, Samples: s,
		ErrorSamples: errs, NoGrad: notOfData})
}

func registerCreationOps() {
	for _, m := range []struct {
		name, doc string
		value     op.Val
	}{
		{"zeros", "A tensor of zeros.", op.IntVal(0)},
		{"ones", "A tensor of ones.", op.IntVal(1)},
		{"empty", "A tensor of unspecified content; here zeros.", op.IntVal(0)},
	} {
		creation(m.name+"(int[]* size"+factoryParams, m.doc, op.Function, func(a *op.Args) []op.Val {
			shape, _ := a.IntList()
			return a.Ret(filled(a.B, m.value, factory(a, a.B.DefaultDType()), checkSizes(m.name, shape)))
		}, samples("(2,3)", "()", "(0,3) | dtype=torch.int64", "(2,) | dtype=torch.bool"), sample("(-1,)"))
		op.Register(op.Def{
			Sig: m.name + "_like(Tensor self" + factoryParams, Doc: m.doc + " Shape, dtype and device are self's.",
			Where: op.Function, NoGrad: notOfData,
			Samples: samples("T(2,3)", "I(2;0,5)", "T(3) | dtype=torch.int64"),
			Eval: func(a *op.Args) []op.Val {
				x := a.Val()
				return a.Ret(likeBatch(a.B, filled(a.B, m.value, likeOptions(a, x), x.Shape()), x))
			},
		})
		op.Register(op.Def{
			Sig: "new_" + m.name + "(Tensor self, int[]* size" + factoryParams, Doc: m.doc + " Dtype and device are self's.",
			Where: op.Method, NoGrad: notOfData,
			Samples: samples("T(3), (2,3)", "I(2;0,5), (4,)", "T(3), (2,) | dtype=torch.int64"),
			Eval: func(a *op.Args) []op.Val {
				x := a.Val()
				shape, _ := a.IntList()
				return a.Ret(likeBatch(a.B, filled(a.B, m.value, likeOptions(a, x), checkSizes(m.name, shape)), x))
			},
		})
	}
	registerFull()
	registerRanges()
}

func registerFull() {
	creation("full(int[] size, Scalar fill_value"+factoryParams, "A tensor of one number.", op.Function,
		func(a *op.Args) []op.Val {
			shape, _ := a.IntList()
			v := a.Scalar()
			return a.Ret(filled(a.B, v, factory(a, numberType(a.B, v)), checkSizes("full", shape)))
		}, samples("(2,3), 2.5", "(2,), 1", "(), True", "(3,), 1.5 | dtype=torch.int64"), sample("(-1,), 1"))
	op.Register(op.Def{
		Sig: "full_like(Tensor self, Scalar fill_value" + factoryParams,
		Doc: "A tensor of one number. Shape, dtype and device are self's.", Where: op.Function,
		NoGrad: notOfData, Samples: samples("T(2,3), 2.5", "I(2;0,5), 3"),
		Eval: func(a *op.Args) []op.Val {
			x, v := a.Val(), a.Scalar()
			return a.Ret(likeBatch(a.B, filled(a.B, v, likeOptions(a, x), x.Shape()), x))
		},
	})
	op.Register(op.Def{
		Sig: "new_full(Tensor self, int[] size, Scalar fill_value" + factoryParams,
		Doc: "A tensor of one number. Dtype and device are self's.", Where: op.Method,
		NoGrad: notOfData, Samples: samples("T(3), (2,3), 2.5", "I(2;0,5), (4,), 3"),
		Eval: func(a *op.Args) []op.Val {
			x := a.Val()
			shape, _ := a.IntList()
			v := a.Scalar()
			return a.Ret(likeBatch(a.B, filled(a.B, v, likeOptions(a, x), checkSizes("full", shape)), x))
		},
	})
}

// rangeOf is arange. Where all numbers are integers the count is computed in integers.
func rangeOf(a *op.Args, start, end, step op.Val) []op.Val {
	d, integral := ir.I64, true
	for _, v := range []op.Val{start, end, step} {
		if v.Kind == op.ScalarFloat {
			d, integral = a.B.DefaultDType(), false
		}
	}
	o := factory(a, d)
	if step.Float() == 0 {
		fail(ir.ErrRuntime, "step must be nonzero")
	}
	if s := start.Float(); math.IsInf(s, 0) || math.IsNaN(s) || math.IsInf(end.Float(), 0) || math.IsNaN(end.Float()) {
		fail(ir.ErrRuntime, "unsupported range: %g -> %g", s, end.Float())
	}
	if (step.Float() > 0) != (end.Float() >= start.Float()) && end.Float() != start.Float() {
		fail(ir.ErrRuntime, "upper bound and lower bound inconsistent with step sign")
	}
	var n int64
	if integral {
		lo, hi, st := int64(start.Bits()), int64(end.Bits()), int64(step.Bits())
		n = (hi - lo + st) / st
		if (hi-lo)%st == 0 {
			n--
		}
	} else {
		n = int64(math.Ceil((end.Float() - start.Float()) / step.Float()))
		// Integer elements come from truncated numbers, but the count does not.
		start, step = asType(a.B, start, o.dtype), asType(a.B, step, o.dtype)
	}
	if o.dtype == ir.Bool {
		unsupported("arange_cpu", ir.Bool)
	}
	return a.Ret(prim.Iota(a.B, start, step, o.dtype, o.device, max(n, 0)))
}

func registerRanges() {
	creation("arange(Scalar end"+factoryParams, "0, 1, ... below end.", op.Function, func(a *op.Args) []op.Val {
		return rangeOf(a, op.IntVal(0), a.Scalar(), op.IntVal(1))
	}, samples("5", "2.5", "0", "4 | dtype=torch.float64"), sample("-1"))
	creation("arange.start_step(Scalar start, Scalar end, Scalar step=1"+factoryParams,
		"start, start + step, ... below end.", op.Function, func(a *op.Args) []op.Val {
			start, end, step := a.Scalar(), a.Scalar(), a.Scalar()
			return rangeOf(a, start, end, step)
		}, samples("1, 5", "1, 10, 3", "5, 0, -2", "0, 1, 0.25", "0.0, 1.0, 0.3", "3, 3"), sample("5, 1"), sample("1, 5, 0"))
	eye := func(a *op.Args, n, m int64) []op.Val {
		o := factory(a, a.B.DefaultDType())
		if n < 0 {
			fail(ir.ErrRuntime, "n must be greater or equal to 0, got %d", n)
		}
		if m < 0 {
			fail(ir.ErrRuntime, "m must be greater or equal to 0, got %d", m)
		}
		k := min(n, m)
		zeros := prim.Zeros(a.B, o.dtype, o.device, []int64{n, m})
		if k == 0 {
			return a.Ret(zeros)
		}
		one := prim.Fill(a.B, op.IntVal(1), o.dtype, o.device, []int64{k})
		return a.Ret(prim.StridedScatter(a.B, zeros, one, ir.InternLayout([]int64{k}, []int64{m + 1}), 0))
	}
	creation("eye(int n"+factoryParams, "The identity matrix.", op.Function, func(a *op.Args) []op.Val {
		n := a.Int()
		return eye(a, n, n)
	}, samples("3", "0", "2 | dtype=torch.int64"), sample("-1"))
	creation("eye.m(int n, int m"+factoryParams, "Ones on the main diagonal of a matrix.", op.Function,
		func(a *op.Args) []op.Val {
			n, m := a.Int(), a.Int()
			return eye(a, n, m)
		}, samples("2, 3", "3, 2"), sample("2, -1"))
}
