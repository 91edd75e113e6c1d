// Package engine is the facade over the engine's packages. docs/internals/overview.md follows a call through it.
//
// It takes operator calls on handles and gives handles, values and errors. Recording never runs anything; a read, a
// flush, mark_step or the safety net collects a window, finds or makes its plan, runs it and commits it.
//
// Each part of [Engine] is in the file of its name: recorder, devices, planner, net, waiter, failures, backward, hooks,
// threads, releases. Locks: releases.go and source_locs.go have their own; the execution lock (locks.go) lets one
// thread run windows and is taken before the engine's lock (calls.go), which guards everything else.
//
// Key types: [Engine], [Call], [Out], [Config]. capi imports it; a program may have one engine ([Default]).
package engine
