// Package lower turns a recorded primitive with known layouts into launches of
// kernels. One function a primitive, chosen by a table that a test holds against
// the registry: no primitive without a lowering.
//
// A lowering names its tensor arguments, with their strides over the dims that the
// kernel walks, and [program.kernel] does the rest: it merges dims that every argument
// walks alike, shares a binding between arguments over one buffer, and gives each
// access its class (linear, unit, broadcast, strided). Sizes, strides and numbers become
// parameters, so that kernels of equal classes have equal text.
//
// Key types: [Node], [Launch], [Lower], [Memo]. lower imports kernels/loopir and engine/op; engine/compile imports
// lower.
package lower
