// Package prim holds the primitives: what the graph records, with the rule for the
// outputs' abstract values and the VJP of each.
//
// One family a file: unary.go, binary.go, create.go, reduce.go, rows.go, index.go,
// move.go, product.go, optim.go. emit.go has a Go function for each primitive, for
// use in VJP rules and in engine/op/composite; views.go the view steps and their
// cotangents. VJPs are made of primitives, so that a gradient has a gradient.
//
// prim imports ir and engine/op; engine/op/composite, engine/lower's tests and the
// engine import it.
package prim
