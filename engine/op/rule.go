package op

// Rule is a rule of one call: an operator's Eval, or a gradient rule. It records through b and looks at its operands'
// abstract values alone.
type Rule interface {
	Apply(b Builder, operands []Val) []Val
}
