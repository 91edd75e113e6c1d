// Package autograd is the tape, and the backward walk over it.
//
// The tape has the primitives and view steps that carry gradient. It is separate from the value graph: realising or
// freeing a value leaves the tape as it is. A step refers to the values that its gradient rule reads, each with the
// commit count of its base at that time. The walk raises an error if a count has changed.
//
// The walk goes from newer to older steps. It calls gradient rules through [Rules], which may replay cached traces,
// sums cotangents ([AddCotangents]), and stops at each of the user's hooks.
//
// Key types: [Tape], [Node], [Saved], [Walk]. A tape edge is a uint32: node<<EdgeBits | output; 0 is no gradient.
// autograd imports engine/op/prim; engine/lazy records on it.
package autograd
