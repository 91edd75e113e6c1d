// Package op says what an operator is. It holds two tables.
//
// A primitive ([Prim]) is what the graph records: strictly typed inputs, a rule
// for the outputs' abstract values, a VJP. engine/lower has a lowering for each.
// An operator ([Def]) is what a user calls: a signature in PyTorch's grammar and
// an Eval that promotes, broadcasts and emits primitives through a [Builder].
// Gradients come from primitives alone; an operator needs no rule of its own.
//
// Key types: [Prim], [Def], [Builder], [Val], [Args].
// The entries live in engine/op/prim and engine/op/composite, one family a file; a
// new operator is one entry in one file. op imports ir only.
package op
