// Package autograd is the tape: what was recorded of primitives and view steps
// that carry gradient, and the backward walk over it.
//
// The tape is apart from the value graph: realising or freeing a value leaves
// the tape alone. Saved values are held by references into the graph, each with
// the commit count of its base when it was saved.
//
// Key types: [Tape], [Saved], [Walk]. Rules are called through [Rules], which may replay what they recorded for like
// operands. A tape edge is a uint32: node<<4 | output;
// 0 is no gradient. autograd imports ir and op; engine/lazy drives it.
package autograd
