// Package composite holds the operators that users call: one [op.Def] each, in files by family. Importing it registers
// them, in the order of register.go.
//
// An entry gives a signature in PyTorch's grammar, samples for the generated tests, and an Eval that promotes dtypes,
// broadcasts, and emits primitives through package prim.
//
// Invariant: no entry has a gradient rule. The primitives have the rules.
//
// type_promotion.go holds the rules that every family shares: result dtypes (Python numbers are wrapped numbers, 0-dim
// tensors have lower priority), broadcasting, dim wrapping, and PyTorch's error texts.
//
// Start reading at activation.go for the form of an entry; docs/howto/add-an-operator.md has a worked example.
//
// composite imports engine/op, engine/op/prim and ir; capi, cmd/opgen and cmd/abigen import composite.
//
//go:generate go run ../../../cmd/opgen -root ../../..
package composite
