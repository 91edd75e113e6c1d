// Package live is the lazy present: tensor handles, alias identities (bases) with
// their bindings, locs, the effect log, random draws, grad slots, tidy scopes and
// the queue of handles to release.
//
// Key types: [State] (implements op.Builder), [Base], [Loc], [Effect], [Handle].
// It records; it never runs anything. live imports ir, op, op/prim and autograd;
// plan and engine import it.
package lazy
