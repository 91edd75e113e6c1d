// Package ir holds the types that every other package uses: dtypes, layouts, abstract values, errors, and the slab of
// graph nodes.
//
// It interns layouts ([Layout]) and abstract values ([Aval]: dtype, shape and device), and counts the references of
// nodes ([Graph]). Each has an id.
//
// Invariant: a stored value is dense and row-major. A view exists only on an [Edge], as a layout and an offset, so that
// a moving offset makes no new layout.
//
// Start reading at graph.go; then layout.go and viewmath.go (views), dtype.go, and errors.go ([Error], [Code]).
//
// ir imports the standard library only; every other package may import it.
package ir
