// Package lazy is the session: what the user's program has made and not yet run.
//
// A tensor is a handle: a view of a base, with its place on the tape. A base is what a tensor and its views share. It
// names its newest value, which is a node of the graph, executed or not. Ordered accesses of bases (loads, stores,
// draws) are in the log of effects. A window is what a set of values and a prefix of the log need: lazy collects it as
// a program.Program, and the engine runs it. A recorded function can be captured as a program and inlined again.
//
// lazy takes primitives and views (it implements op.Builder) and gives windows. It never runs anything. What it must
// know of devices it asks through [Devices].
//
// Key types: [Session], [Handle], [Base], [Loc], [Effect], [Modes], [Window], [Captured]. lazy imports engine/autograd
// and engine/program; engine/dispatch and engine import it.
package lazy
