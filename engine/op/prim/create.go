package prim

import (
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
)

const noInputs = op.NotDifferentiable("it has no tensor input")

func init() {
	pFill = op.RegisterPrim(op.Prim{Name: "fill", Doc: "one number everywhere", NIn: 1, NoVJP: noInputs, Infer: createInfer("fill", all)})
	pIota = op.RegisterPrim(op.Prim{Name: "iota", Doc: "start + step*i", NIn: 2, NoVJP: noInputs, Infer: createInfer("arange", numbers)})
	random := func(name, doc string, nIn int, a accepts) op.PrimID {
		return op.RegisterPrim(op.Prim{Name: name, Doc: doc, NIn: nIn, Random: true, NoVJP: noInputs, Infer: createInfer(name, a), ScalarDType: i64Scalars})
	}
	pRandUniform = random("rand_uniform", "uniform in [0, 1)", 2, floats)
	pRandNormal = random("rand_normal", "standard normal", 2, floats)
	pRandInt = random("rand_int", "integers in [low, high)", 4, all)
	pDropout = op.RegisterPrim(op.Prim{Name: "dropout", Doc: "zero with probability p, else x/(1-p)", NIn: 4, Elementwise: true, Random: true,
		Infer: mapInfer("dropout", floats, ir.InvalidDType),
		ScalarDType: func(in []op.Val, _ []op.OutSpec, i int) ir.DType {
			if i == 3 {
				return in[0].DType()
			}
			return ir.I64
		},
		VJP: func(c *op.VJPCall) []op.Val {
			return []op.Val{Dropout(c.B, c.Cot[0], c.In[1], c.In[2], c.In[3]), {}, {}, {}}
		}})
	pToDevice = op.RegisterPrim(op.Prim{Name: "to_device", Doc: "a copy on another device", NIn: 1,
		Infer: mapInfer("to_device", all, ir.InvalidDType),
		VJP:   func(c *op.VJPCall) []op.Val { return []op.Val{ToDevice(c.B, c.Cot[0], c.In[0].Device())} }})
}
