// Package engine is the facade over the engine's packages: the lock, forcing,
// flush and mark_step, failure classes, options and statistics.
// docs/internals/overview.md follows a call through it.
//
// Key types: [Engine], [Call], [Out], [Config]. capi imports it; a program may have
// one engine (Default).
package engine
