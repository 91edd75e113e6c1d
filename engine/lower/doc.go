// Package lower turns a recorded primitive with known layouts into launches.
//
// [Lower] takes a [Node]: the primitive, its attributes, and its operands and outputs with their layouts. It gives a
// [Result]: device steps and temporaries. table.go names one function for each primitive; a test fails where a
// primitive has none. [Memo] keeps what nodes became, so that like nodes share launches.
//
// A lowering names its tensor arguments, with their strides over the dims that the kernel walks. [program.kernel] does
// the rest: it merges neighbouring dims where the strides of every argument allow it, shares a binding between
// arguments over one buffer, and gives each access its class (linear, unit, broadcast, strided).
//
// Invariant: sizes, strides and numbers are parameters of a kernel. Kernels of equal classes have equal text.
//
// A row primitive (a reduction, softmax, a norm) has one body in [Rows]. It is lowered by this body alone and in a
// fusion group.
//
// Start reading at lower.go and kernel.go; then elementwise.go for the simplest lowering.
//
// lower imports engine/op, kernels/device, kernels/launch, kernels/loopir and ir; engine/compile imports lower.
package lower
