package op

import "github.com/torchlette/torchlette/ir"

// Complex records a primitive with complex operands or results by primitives on real ones.
type Complex func(c *ComplexCall) []Val

// ComplexCall is a primitive's call with complex operands, or with a complex dtype among its attributes.
type ComplexCall struct {
	B    Builder
	Prim *Prim
	Attr []int64
	In   []Val
}

// SetComplex sets how a primitive is recorded on complex operands. A primitive without that is not defined for them.
func SetComplex(id PrimID, rule Complex) {
	p := prims[id]
	if p.Complex != nil {
		panic("BUG: primitive has two complex rules: " + p.Name)
	}
	p.Complex = rule
}

// OnComplex reports that a call needs the primitive's complex rule.
func OnComplex(id PrimID, attr []int64, in []Val) bool {
	for i := range in {
		if in[i].Layout.IsComplex() {
			return true
		}
	}
	return prims[id].DTypeAttr && ir.DType(attr[0]).IsComplex()
}

// EmitComplex records a call by the primitive's complex rule.
func EmitComplex(b Builder, id PrimID, attr []int64, in []Val) []Val {
	p := prims[id]
	if p.Complex == nil {
		d := ir.DType(0)
		for i := range in {
			if in[i].Layout.IsComplex() {
				d = in[i].DType()
			}
		}
		panic(ir.Errorf(ir.ErrNotImplemented, "\"%s_cpu\" not implemented for '%s'", p.NameFor(attr), d.ScalarType()))
	}
	return p.Complex(&ComplexCall{B: b, Prim: p, Attr: attr, In: in})
}

// PairsOf views complex elements as pairs of numbers, the last dim; other operands stay as they are.
func PairsOf(b Builder, v Val) Val {
	if !v.Layout.IsComplex() {
		return v
	}
	return b.View(v, v.L().Pairs(), v.Offset, ViewOp{Kind: ViewPair})
}

// ComplexOf views pairs of numbers, the last dim, as complex elements.
func ComplexOf(b Builder, v Val) Val {
	l, ok := ir.ComplexLayout(v.L())
	if !ok {
		panic(ir.Errorf(ir.ErrInternal, "BUG: no pairs: sizes %s, strides %s", ir.ShapeString(v.Shape()),
			ir.ShapeString(v.L().Stride)))
	}
	return b.View(v, l, v.Offset, ViewOp{Kind: ViewPair})
}
