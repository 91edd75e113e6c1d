// Package autograd is the tape, and the backward walk over it.
//
// The tape has the primitives and view steps that carry gradient. It is apart from the value graph: realising or
// freeing a value leaves the tape alone. A step holds what its gradient rule reads by references into the graph, each
// with the commit count of its base at that time. The walk raises an error when the count has changed.
//
// The walk goes from newer to older steps. It calls rules through [Rules], which may replay what they recorded for like
// operands, sums cotangents ([AddCotangents]), and stops where a hook of the user's must run.
//
// Key types: [Tape], [Node], [Saved], [Walk]. A tape edge is a uint32: node<<4 | output; 0 is no gradient. autograd
// imports engine/op/prim; engine/lazy records on it.
package autograd
