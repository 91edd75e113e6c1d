package main

import (
	"slices"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/samples"
	"github.com/torchlette/torchlette/ir"
)

// inference is a builder that computes nothing: it checks its operands and makes results.
type inference struct{ made uint32 }

func (i *inference) operand(d ir.DType, dev ir.DeviceID, shape []int64) op.Val {
	i.made++
	l := ir.DenseLayout(shape)
	return op.Val{Kind: op.Tensor, Value: i.made, Layout: l.ID, Aval: ir.InternAval(d, dev, l).ID}
}

// Tensor implements samples.Builder.
func (i *inference) Tensor(d ir.DType, shape []int64, _ ...float64) op.Val {
	return i.operand(d, ir.CPU, shape)
}

func (i *inference) Emit1(p op.PrimID, x op.Val) op.Val    { return i.Emit(p, nil, x) }
func (i *inference) Emit2(p op.PrimID, x, y op.Val) op.Val { return i.Emit(p, nil, x, y) }
func (i *inference) Emit(p op.PrimID, attr []int64, in ...op.Val) op.Val {
	return i.EmitN(p, attr, in...)[0]
}

func (i *inference) EmitN(id op.PrimID, attr []int64, in ...op.Val) []op.Val {
	specs, err := op.PrimOf(id).Infer(in, attr, nil)
	if err != nil {
		panic(err)
	}
	out := make([]op.Val, len(specs))
	for k, s := range specs {
		out[k] = i.operand(s.DType, ir.CPU, s.Shape)
	}
	return out
}

func (i *inference) View(v op.Val, l *ir.Layout, offset int64, _ op.ViewOp) op.Val {
	v.Layout, v.Offset = l.ID, offset
	return v
}
func (i *inference) Detach(v op.Val) op.Val         { return v }
func (i *inference) RNG() (seed, drawOffset op.Val) { return op.IntVal(0), op.IntVal(0) }
func (i *inference) DefaultDType() ir.DType         { return ir.F32 }
func (i *inference) DefaultDevice() ir.DeviceID     { return ir.CPU }
func (i *inference) NeedsGrad(op.Val) bool          { return false }

// takes reports that some sample of d is accepted with operands of dtype t.
func takes(d *op.Def, t ir.DType) bool {
	return slices.ContainsFunc(d.Samples, func(s op.Sample) (ok bool) {
		b := &inference{}
		a, err := samples.Read(b, d, s, t)
		if err != nil || !slices.ContainsFunc(a.In, func(v op.Val) bool { return v.IsTensor() && v.DType() == t }) {
			return false
		}
		defer func() {
			if r := recover(); r != nil {
				if _, refused := r.(*ir.Error); !refused {
					panic(r)
				}
				ok = false
			}
		}()
		d.Eval(a)
		return true
	})
}

// dtypeKinds are the words of the dtype column; a word stands for all of its dtypes, the narrow ones first.
var dtypeKinds = []struct {
	word   string
	dtypes []ir.DType
}{{"float", bySize(ir.DType.IsFloat)}, {"int", bySize(ir.DType.IsInt)}, {"bool", []ir.DType{ir.Bool}}}

func bySize(has func(ir.DType) bool) (out []ir.DType) {
	for d := ir.Bool; d < ir.NumDTypes; d++ {
		if has(d) {
			out = append(out, d)
		}
	}
	slices.SortStableFunc(out, func(a, b ir.DType) int { return a.Size() - b.Size() })
	return out
}

// dtypes names the dtypes that the overloads accept; an em dash where no operand is a tensor of any dtype.
func dtypes(defs []*op.Def) string {
	var words []string
	for _, k := range dtypeKinds {
		var taken []string
		for _, t := range k.dtypes {
			if slices.ContainsFunc(defs, func(d *op.Def) bool { return takes(d, t) }) {
				taken = append(taken, t.String())
			}
		}
		switch {
		case len(taken) == len(k.dtypes):
			words = append(words, k.word)
		default:
			words = append(words, taken...)
		}
	}
	if len(words) == 0 {
		return "—"
	}
	return strings.Join(words, ", ")
}
