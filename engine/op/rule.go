package op

// Rule is the rule of one call: an operator's Eval, or a gradient rule. It records through b and reads its operands'
// abstract values only.
type Rule interface {
	Apply(b Builder, operands []Val) []Val
}
