package engine

import (
	"slices"

	"github.com/torchlette/torchlette/engine/dispatch"
	"github.com/torchlette/torchlette/engine/lazy"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/engine/op/prim"
	"github.com/torchlette/torchlette/ir"
)

// numbersOnly reports that the operands are numbers, at least one, and no tensors.
func numbersOnly(in []uint64) bool {
	return slices.Contains(in, dispatch.ScalarOperand) && !slices.ContainsFunc(in, func(h uint64) bool {
		return h != 0 && h != dispatch.ScalarOperand
	})
}

// numberDType returns the dtype of a tensor made of a number.
func numberDType(b op.Builder, v op.Val) ir.DType {
	switch v.Kind {
	case op.ScalarBool:
		return ir.Bool
	case op.ScalarInt:
		return ir.I64
	}
	return b.DefaultDType()
}

// paramKind classifies a parameter for decode; other parameters are integers.
type paramKind uint8

const (
	tensorParam paramKind = iota
	listParam
	scalarParam
)

// decoding lists the operand and scalar parameters of an operator in order; at is the index of the parameter.
type decoding struct {
	kind paramKind
	at   int
}

func decodings() [][]decoding {
	out := make([][]decoding, len(op.Defs())+1)
	for _, d := range op.Defs() {
		for i := range d.Parsed.Params {
			switch p := &d.Parsed.Params[i]; p.Type {
			case "Tensor", "Operand":
				k := tensorParam
				if p.List {
					k = listParam
				}
				out[d.ID] = append(out[d.ID], decoding{k, i})
			case "float", "Scalar":
				out[d.ID] = append(out[d.ID], decoding{scalarParam, i})
			}
		}
	}
	return out
}

// passThroughNumbers returns, by operator, the mask of the Scalar parameters in Def.PassThrough.
func passThroughNumbers() []uint32 {
	out := make([]uint32, len(op.Defs())+1)
	for _, d := range op.Defs() {
		k := 0
		for i := range d.Parsed.Params {
			if p := &d.Parsed.Params[i]; p.Type == "float" || p.Type == "Scalar" {
				if slices.Contains(d.PassThrough, p.Name) {
					out[d.ID] |= 1 << k
				}
				k++
			}
		}
	}
	return out
}

// decode resolves the operands of a call and checks the preconditions of rules.
func (r *recorder) decode(b op.Builder, s *lazy.Session, c *Call, d *op.Def) *ir.Error {
	r.args.B, r.args.Op = b, d
	if err := r.operands(s, c, d); err != nil {
		return err
	}
	in := r.args.In
	r.mode = c.Mode
	if d.InPlaceOnly {
		r.mode = ModeInPlace
	}
	if numbersOnly(c.In) {
		switch {
		case d.ScalarOverload && c.Mode != ModeInPlace:
			in[0] = prim.Fill(s, in[0], numberDType(s, in[0]), s.DefaultDevice(), nil)
		case d.Where&op.Hidden == 0:
			return ir.Errorf(ir.ErrType, "%s() received an invalid combination of arguments: got numbers only, want a "+
				"Tensor among the operands", d.Parsed.Name)
		}
	}
	if r.mode == ModeInPlace && len(in) > 0 {
		if in[0].IsScalar() {
			return ir.Errorf(ir.ErrType, "%s(): argument 'input' (position 1) must be Tensor, not a number", d.Parsed.Name)
		}
		in[0].Overwritten = true
	}
	if k := r.factories[d.ID]; k >= 0 {
		k = intIndex(c, d, k)
		r.leaf = k >= 0 && c.Ints[k] != 0
	}
	return nil
}

// operands resolves the operands of a call. Numbers as operands and Scalar parameters share the list of scalars, in the
// signature's order.
func (r *recorder) operands(s *lazy.Session, c *Call, d *op.Def) *ir.Error {
	a := &r.args
	a.In, a.Scalars, a.Ints = a.In[:0], a.Scalars[:0], c.Ints
	a.Reset()
	si, ti := 0, 0
	for _, p := range r.decodings[d.ID] {
		switch p.kind {
		case scalarParam:
			if si >= len(c.Scalars) {
				return tooFew(d, "scalars", len(c.Scalars))
			}
			a.Scalars = append(a.Scalars, number(s, c.Scalars, &si))
			continue
		case listParam:
			k := intIndex(c, d, p.at)
			if k < 0 {
				return tooFew(d, "integers", len(c.Ints))
			}
			for n := c.Ints[k]; n > 1; n-- {
				if err := r.operand(s, c, d, &ti, &si); err != nil {
					return err
				}
			}
			if c.Ints[k] < 1 {
				continue
			}
		}
		if err := r.operand(s, c, d, &ti, &si); err != nil {
			return err
		}
	}
	return nil
}

// number reads the next number. A complex one is two entries, and becomes a tensor that counts as a number.
func number(s *lazy.Session, list []Scalar, at *int) op.Val {
	x := list[*at]
	*at++
	if x.Kind != op.ScalarComplex || *at == len(list) {
		return op.Number(x.Kind, x.Bits)
	}
	im := list[*at]
	*at++
	part := func(bits uint64) op.Val {
		return prim.Fill(s, op.Number(op.ScalarFloat, bits), ir.F64, ir.CPU, nil)
	}
	v := prim.MakeComplex(s, part(x.Bits), part(im.Bits))
	v.Number = true
	return v
}

func tooFew(d *op.Def, what string, got int) *ir.Error {
	return ir.Errorf(ir.ErrType, "%s: %s: got %d, want more", d.Parsed.Name, what, got)
}

// operand decodes the next tensor operand.
func (r *recorder) operand(s *lazy.Session, c *Call, d *op.Def, ti, si *int) *ir.Error {
	a := &r.args
	if *ti >= len(c.In) {
		return tooFew(d, "operands", len(c.In))
	}
	h := c.In[*ti]
	*ti++
	switch h {
	case 0:
		a.In = append(a.In, op.Val{})
	case dispatch.ScalarOperand:
		if *si >= len(c.Scalars) {
			return tooFew(d, "scalars", len(c.Scalars))
		}
		a.In = append(a.In, number(s, c.Scalars, si))
	default:
		a.In = append(a.In, op.Val{})
		return s.ResolveTo(h, &a.In[len(a.In)-1])
	}
	return nil
}

// intIndex returns the index of the first integer of parameter i, -1 if the call has too few integers.
func intIndex(c *Call, d *op.Def, i int) int {
	k := 0
	for j := 0; j < i; j++ {
		p := &d.Parsed.Params[j]
		switch {
		case p.List:
			if k >= len(c.Ints) {
				return -1
			}
			if n := c.Ints[k]; n > 0 && p.Type != "Tensor" {
				k += int(n)
			}
			k++
		case p.Type == "int" || p.Type == "bool":
			k++
			if p.Opt {
				k++
			}
		case p.Type == "str" || p.Type == "dtype" || p.Type == "device":
			k++
		}
	}
	if k >= len(c.Ints) {
		return -1
	}
	return k
}

// factoryParams returns, by operator, the index of its requires_grad parameter, -1 for none.
func factoryParams() []int {
	out := make([]int, len(op.Defs())+1)
	for i := range out {
		out[i] = -1
	}
	for _, d := range op.Defs() {
		out[d.ID] = d.Parsed.RequiresGrad()
	}
	return out
}
