// Package loopir is the loop IR: what a kernel computes, without saying how a device
// runs it.
//
// A [Kernel] is a data-parallel program over an outer and an inner index space, in
// stages. Maps, reductions, row programs (softmax, layer norm), gathers and scatters
// all have this form. It has three consumers: [Kernel.Interpret] is the oracle,
// kernels/cpu runs it in blocks, and kernels/gpucode generates GPU programs from it.
//
// The text of a kernel depends on expressions, dtypes, ranks and access classes.
// Sizes, strides, offsets and scalars are parameters.
//
// loopir imports ir only.
package loopir
