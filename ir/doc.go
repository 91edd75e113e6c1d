// Package ir holds the types that every other package speaks in: dtypes, layouts, abstract values, errors, and the
// slab of graph nodes.
//
// It takes what a recording session adds and gives it ids: interned layouts ([Layout]), interned abstract values
// ([Aval]: dtype, shape and device) and counted nodes ([Graph]).
//
// Invariant: a stored value is dense and row-major. A view exists only on an [Edge], as a layout and an offset, so that
// moving a window over a buffer makes no new layout.
//
// Start reading at graph.go; then layout.go and viewmath.go (views), dtype.go, and errors.go ([Error], [Code]).
//
// ir imports the standard library only; every other package may import it.
package ir
