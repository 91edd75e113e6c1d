// Package dispatch records calls of rules on a session, and the second like call onward without the rule.
//
// A rule is called once for a key of abstract operands, is captured the second time, and from then on its cached trace
// is replayed: primitives, views and draws in order. A call whose result follows from its operands' layouts can be
// deferred: the caller knows the result before the call is recorded, and records many of them at once.
//
// Key types: [Dispatcher] (an op.Builder that captures what rules record), [Call], [DeferredCall], [Deferral].
// dispatch imports engine/lazy; engine imports it.
package dispatch
