// Package ir holds programs as data: dtypes, layouts, abstract values, error
// codes and the counted slab of graph nodes.
//
// Key types: [DType], [Layout] (interned shape and strides; the offset of a
// view travels beside it on an [Edge], so that moving a window over a buffer
// never makes a new layout), [Aval] (interned dtype, shape and device),
// [Graph] (the slab) and [Error].
//
// A stored value is always dense and row-major. A view exists only on an edge.
//
// ir imports the standard library only; every other package may import it.
package ir
