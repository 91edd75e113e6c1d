// Package engine is the facade over the engine's packages: the lock, forcing,
// flush and mark_step, failure classes, options and statistics. docs/spine.md
// lists its methods.
//
// Key types: [Engine], [Call], [Out], [Config]. capi imports it; a program may have
// one engine (Default).
package engine
