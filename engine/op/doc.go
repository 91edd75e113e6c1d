// Package op says what an operator is. It holds two registries.
//
// A primitive ([Prim]) is what the graph records: strictly typed inputs, a rule for the outputs' abstract values, a
// VJP. engine/lower has a lowering for each.
//
// An operator ([Def]) is what a user calls: a signature in PyTorch's grammar and an Eval that promotes, broadcasts and
// emits primitives through a [Builder]. It has no gradient rule: its gradient is that of its primitives.
//
// Invariant: every property of an operator or a primitive is a field of its entry. No other package compares names.
//
// The entries live in engine/op/prim and engine/op/composite, one family a file; a new operator is one entry in one
// file. Start reading at def.go and prim.go; then sig.go (signatures).
//
// op imports ir only.
package op
