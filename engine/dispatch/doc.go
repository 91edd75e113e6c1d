// Package dispatch records calls of rules on a session. From the third like call on, it replays a cached trace instead.
//
// A rule is identified by a key, which includes its abstract operands. The first call of a key runs the rule, the
// second also captures it, and later calls replay the trace: primitives, views and draws in order. A call can be
// deferred if its result follows from its operands' layouts: the caller then knows the result before the call is
// recorded, and records many calls at once.
//
// Key types: [Dispatcher] (an op.Builder that captures what rules record), [Call], [DeferredCall], [Deferral].
// dispatch imports engine/lazy; engine imports it.
package dispatch
