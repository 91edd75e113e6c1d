package composite

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

func registerConvertOps() {
	for _, m := range []struct {
		name string
		d    ir.DType
	}{
		{"float", ir.F32}, {"double", ir.F64}, {"cfloat", ir.C64}, {"cdouble", ir.C128}, {"half", ir.F16}, {"bfloat16", ir.BF16}, {"long", ir.I64}, {"int", ir.I32},
		{"bool", ir.Bool},
		{"byte", ir.U8}, {"char", ir.I8}, {"short", ir.I16},
	} {
		methodView(m.name+"(Tensor self) -> Tensor", "The tensor as "+m.d.String()+"; itself when it is.",
			func(a *op.Args) []op.Val {
				return a.Ret(prim.Cast(a.B, a.Val(), m.d))
			}, samples("T(3;0,9)", "I(4;0,3)", "B(3)", "T()"))
	}
	methodView("type_as(Tensor self, Tensor other) -> Tensor", "The tensor in other's dtype, on its device.",
		func(a *op.Args) []op.Val {
			x, y := a.Val(), a.Val()
			return a.Ret(prim.ToDevice(a.B, prim.Cast(a.B, x, y.DType()), y.Device()))
		}, samples("T(3;0,9), I(2;0,5)", "I(3;0,9), T(2)", "T(3), T(2)"))
	hidden := func(sig, doc string, eval op.Eval, s []op.Sample) {
		op.Register(op.Def{Sig: sig, Doc: doc, Where: op.Hidden, View: true, Eval: eval, Samples: s})
	}
	hidden("_to_dtype(Tensor self, dtype dtype, bool copy=False) -> Tensor",
		"The tensor in a dtype; itself when it has it, unless copy.", func(a *op.Args) []op.Val {
			x, d, c := a.Val(), a.DType(), a.Bool()
			return a.Ret(converted(a.B, x, d, x.Device(), c))
		}, samples("T(3), torch.float64", "I(3;0,5), torch.float32", "T(3), torch.float32, True"))
	hidden("_to_device(Tensor self, device device, bool copy=False) -> Tensor",
		"The tensor on a device; itself when it is there, unless copy.", func(a *op.Args) []op.Val {
			x := a.Val()
			dev, _ := a.Device()
			return a.Ret(converted(a.B, x, x.DType(), dev, a.Bool()))
		}, samples("T(3), 'cpu'", "T(3), 'cpu', True"))
	hidden("_to(Tensor self, dtype? dtype=None, device? device=None, bool copy=False) -> Tensor",
		"The tensor in a dtype and on a device.", func(a *op.Args) []op.Val {
			x, d := a.Val(), a.DType()
			dev, given := a.Device()
			if !given {
				dev = x.Device()
			}
			if d == ir.InvalidDType {
				d = x.DType()
			}
			return a.Ret(converted(a.B, x, d, dev, a.Bool()))
		}, samples("T(3), torch.float64", "T(3), None, 'cpu'", "T(3) | copy=True"))
	op.Register(op.Def{
		Sig: "_result_type(Operand self, Operand other) -> Tensor",
		Doc: "An empty tensor of the dtype that an operation of both gives.", Where: op.Hidden, NoGrad: notOfData,
		Samples: samples("T(3), 1", "I(3;0,5), 2.5", "1, True"),
		Eval: func(a *op.Args) []op.Val {
			x, y := a.Val(), a.Val()
			return a.Ret(prim.Zeros(a.B, resultType(a.B, x, y), ir.CPU, []int64{0}))
		},
	})
	op.Register(op.Def{
		Sig: "_with_history(Tensor self, Tensor history) -> Tensor", Where: op.Hidden, NoGrad: notOfData,
		Doc:          "The values of self with the gradient history of history, which computed the same values.",
		Samples:      samples("T(3), T(3)"),
		ErrorSamples: samples("T(3), T(2)"),
		Eval: func(a *op.Args) []op.Val {
			x, y := a.Val(), a.Val()
			if !ir.SameShape(x.Shape(), y.Shape()) || x.DType() != y.DType() {
				fail(ir.ErrRuntime, "_with_history: got %s of shape %s and %s of shape %s, want the same", x.DType(),
					ir.ShapeString(x.Shape()), y.DType(), ir.ShapeString(y.Shape()))
			}
			x = prim.Copy(a.B, x)
			// Without a register the call has no cached trace, which would give the result no history.
			x.Tape, x.CaptureReg = y.Tape, 0
			return a.Ret(x)
		},
	})
	registerFills()
}

// converted casts before or after moving to another device: where the data is smaller.
func converted(b op.Builder, x op.Val, d ir.DType, dev ir.DeviceID, copied bool) op.Val {
	y := x
	if d.Size() <= x.DType().Size() {
		y = prim.ToDevice(b, prim.Cast(b, x, d), dev)
	} else {
		y = prim.Cast(b, prim.ToDevice(b, x, dev), d)
	}
	if copied && y.Value == x.Value {
		y = prim.Copy(b, y)
	}
	return y
}

// filling refuses a value of more than one element.
func filling(v op.Val) op.Val {
	if r := len(v.Shape()); r > 0 {
		fail(ir.ErrRuntime, "fill_ only supports 0-dimension value tensor but got tensor with %d dimensions.", r)
	}
	return v
}

func registerFills() {
	inPlace := func(sig, doc string, where op.Where, eval op.Eval, s []op.Sample, errs ...op.Sample) {
		op.Register(op.Def{Sig: sig, Doc: doc, Where: where, InPlaceOnly: true, Overwrites: true, Eval: eval, Samples: s,
			ErrorSamples: errs})
	}
	inPlace("zero_(Tensor self) -> Tensor", "Filled with zeros.", op.Function|op.Method, func(a *op.Args) []op.Val {
		return a.Ret(prim.ZerosLike(a.B, a.Val()))
	}, samples("T(3,4)", "I(3;0,5)"))
	inPlace("fill_(Tensor self, Operand value) -> Tensor", "Filled with one value.", op.Function|op.Method,
		func(a *op.Args) []op.Val {
			x, v := a.Val(), a.Val()
			return a.Ret(assigned(a.B, x, filling(v)))
		}, samples("T(3,4), 2.5", "I(3;0,5), 1.5", "T(3), torch.ones(())"), sample("T(3), T(3)"))
	op.Register(op.Def{
		Sig: "fill(Tensor self, Operand value) -> Tensor", Doc: "One value in self's shape, dtype and device; self's " +
			"gradient is zero.", Where: op.Function,
		Samples: samples("T(3,4), 2.5", "T(3,4), torch.ones(())"), ErrorSamples: samples("T(3), T(3)"),
		Eval: func(a *op.Args) []op.Val {
			x, v, b := a.Val(), a.Val(), a.B
			filled := assigned(b, x, filling(v))
			switch {
			case b.NeedsGrad(x):
				always := prim.Fill(b, op.BoolVal(true), ir.Bool, x.Device(), x.Shape())
				filled = prim.Where(b, always, filled, x)
			case v.IsTensor():
				filled = prim.Copy(b, filled)
			}
			return a.Ret(filled)
		},
	})
	inPlace("copy_(Tensor self, Operand src, bool non_blocking=False) -> Tensor",
		"Overwritten with src, which is cast, moved and broadcast.", op.Method, func(a *op.Args) []op.Val {
			x, v := a.Val(), a.Val()
			return a.Ret(assigned(a.B, x, v))
		}, samples("T(3,4), T(3,4)", "T(3,4), T(4)", "T(3), I(3;0,5)", "I(3;0,5), T(3)", "T(2,3), T(3,2).t()"),
		sample("T(3), T(4)"), sample("T(3), T(2,3)"))
}
