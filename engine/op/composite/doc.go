// Package composite holds the operators that users call: one [op.Def] each, in files
// by family. An entry gives a signature in PyTorch's grammar, samples for the
// generated tests, and an Eval that promotes dtypes, broadcasts and emits
// primitives through package prim. No entry has a gradient rule: gradients are
// those of the primitives.
//
// promote.go holds the rules that every family shares: result dtypes (Python
// numbers are wrapped numbers, 0-dim tensors have lower priority), broadcasting,
// dim wrapping and PyTorch's error texts.
//
// Importing composite for its side effect registers the operators. It imports op,
// op/prim and ir; the engine, capi and cmd/opgen may import it.
//
//go:generate go run ../../../cmd/opgen -root ../../..
package composite
