package op

import "github.com/torchlette/torchlette/ir"

// JVPKind says how forward mode computes the tangents of a primitive's results.
type JVPKind uint8

// The kinds of JVP rules.
const (
	JVPDerived JVPKind = iota // no rule: the gradient rule is differentiated by its cotangent
	JVPMap                    // the gradient rule on tangents: the Jacobian of an elementwise map is diagonal
	JVPLinear                 // the primitive itself on tangents
	JVPProduct                // the primitive itself, once for each operand with its tangent
	JVPRule                   // a rule written for the primitive
)

// String returns the kind's name in the list of primitives.
func (k JVPKind) String() string {
	return [...]string{"derived", "map", "linear", "product", "rule"}[k]
}

// JVPCall is the call of a JVP rule.
type JVPCall struct {
	B    Builder
	Prim *Prim
	Attr []int64
	In   []Val
	Out  []Val // the results, already recorded
	Tan  []Val // one for each operand; Kind None where the tangent is zero
	// Apart: nodes that compute tangents should compute no values, since linearize captures these nodes.
	Apart bool
}

// JVP returns one tangent for each result; Kind None where it is zero. nil means that the rule does not cover these
// attributes: the tangents are then derived.
type JVP func(c *JVPCall) []Val

// SetJVP sets the JVP rule of a primitive.
func SetJVP(id PrimID, kind JVPKind, rule JVP) {
	p := prims[id]
	if p.JVP != nil || p.VJP == nil {
		panic("BUG: primitive has two JVP rules, or no gradient: " + p.Name)
	}
	p.JVPKind, p.JVP = kind, rule
}

// Forward has the methods that forward mode adds to a Builder. Levels count from 1, the outermost.
type Forward interface {
	// Dual returns a value equal to primal with a tangent at a level.
	Dual(primal, tangent Val, level int64) Val
	// Tangent returns the tangent of v at a level; Kind None where it is zero.
	Tangent(v Val, level int64) Val
	// Primal returns v without its tangents at a level and those above it, with its place on the tape.
	Primal(v Val, level int64) Val
	// Untaped returns v without its place on the tape, with its tangents.
	Untaped(v Val) Val
	// Settled returns v, or a copy that has those of levels for which only its tangents have elements.
	Settled(v Val, levels []ir.HiddenDim) Val
}
