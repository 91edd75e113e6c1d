// Package lazy is the session: the recorded and not yet executed state of the user's program.
//
// A tensor is a handle: a view of a base, with its place on the tape. A base is the storage that a tensor and its views
// share. It names its newest value, which is a node of the graph, executed or not. The log of effects has the ordered
// accesses to bases (loads, stores, draws). A window is the work that a set of values and a prefix of the log need:
// lazy collects it as a program.Program, and the engine runs it. A recorded function can be captured as a program and
// inlined again.
//
// lazy records primitives and views (it implements op.Builder) and collects windows. It never runs anything. It asks
// [Devices] about devices.
//
// Key types: [Session], [Handle], [Base], [Loc], [Effect], [Modes], [Window], [Captured]. lazy imports engine/autograd
// and engine/program; engine/dispatch and engine import it.
package lazy
