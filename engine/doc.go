// Package engine is the facade over the engine's packages. docs/internals/overview.md follows a call through it.
//
// It takes operator calls on handles and returns handles, values and errors. Recording never runs anything. A read, a
// flush, mark_step or the safety net collects a window, finds or makes its plan, runs it and commits it.
//
// Each part of [Engine] is in the file of its name: recorder, devices, planner, net, waiter, failures, backward, hooks,
// threads, releases. Locks: the execution lock (locks.go) lets one thread run windows; it is taken before the engine's
// lock (calls.go). The engine's lock guards all parts except those with their own: releases.go and source_locs.go.
//
// Key types: [Engine], [Call], [Out], [Config]. capi imports it; a program may have one engine ([Default]).
package engine
