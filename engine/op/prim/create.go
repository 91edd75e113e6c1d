package prim

import (
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// The distributions of random: its third attribute.
const (
	randUniform int64 = iota
	randNormal
	randInt
)

// firstNumber is an op.Prim.Seed: the seed is the first number.
func firstNumber([]int64) (number int, ok bool) { return 0, true }

const noInputs = op.NotDifferentiable("it has no tensor input")

func registerCreatePrims() {
	pFill = op.RegisterPrim(op.Prim{Name: "fill", Doc: "one number everywhere", NIn: 1, NoVJP: noInputs, DTypeAttr: true,
		Infer: createInfer("fill", all)})
	pIota = op.RegisterPrim(op.Prim{Name: "iota", Doc: "start + step*i", NIn: 2, NoVJP: noInputs, DTypeAttr: true,
		Infer: createInfer("arange", numbers)})
	draws := []string{"rand_uniform", "rand_normal", "rand_int"}
	pRandom = op.RegisterPrim(op.Prim{Name: "random", Doc: "draws: uniform in [0, 1), standard normal, or integers in " +
		"[low, high)", NIn: -1, Random: true, Seed: firstNumber, NoVJP: noInputs, DTypeAttr: true,
		Variants: draws, VariantAt: 2, ScalarDType: i64Scalars,
		Infer: func(_ []op.Val, attr []int64, out []op.OutSpec) ([]op.OutSpec, error) {
			name, a := draws[attr[2]], floats
			if attr[2] == randInt {
				a = all
			}
			return createdOf(name, a, ir.DType(attr[0]), attr[3:], out)
		}})
	pDropout = op.RegisterPrim(op.Prim{Name: "dropout", Doc: "zero with probability p, else x/(1-p)", NIn: 4,
		Elementwise: true, Random: true, Seed: firstNumber,
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
	pToDevice = op.RegisterPrim(op.Prim{Name: "to_device", Doc: "a copy on another device", NIn: 1, Moves: true,
		Infer: mapInfer("to_device", all, ir.InvalidDType),
		VJP:   func(c *op.VJPCall) []op.Val { return []op.Val{ToDevice(c.B, c.Cot[0], c.In[0].Device())} }})
}
