// Package prim holds the primitives: what the graph records, each with the rule for its outputs' abstract values and
// its VJP.
//
// Primitives are registered one family a file: unary, binary and special (elementwise), create, reduce, softmax,
// layernorm, batchnorm, loss, index, sort_scan, cat_scatter, conv_pool, matmul, attention, recurrence, linalg (with
// its gradients in linalg_grad) and optim. register.go gives their order, which decides their numbers.
//
// What the families share: infer.go (rules for abstract values), forms.go (operands and results in the text of
// docs/primitives.md), emit.go (a Go function for each primitive, for VJPs and for engine/op/composite), views.go (view
// steps, which are no primitives, and their cotangents), and known.go (the primitives that other packages name).
//
// Invariant: a VJP is made of primitives, so that a gradient has a gradient.
//
// Start reading at unary.go for the form of an entry; then emit.go.
//
// prim imports engine/op and ir; engine/op/composite, engine/program and the packages above them import prim.
package prim
