// Package loopir is the loop IR: it defines what a kernel computes. The device decides how.
//
// A [Kernel] is a data-parallel program over an outer and an inner index space, in stages. Maps, reductions, row
// programs (softmax, layer norm), gathers, scatters and scans have this form. [Builder] makes kernels,
// [Verify] checks them, and [Interpret] is the oracle for the devices: kernels/cpu compiles a kernel to
// block programs, kernels/gpucode to GPU programs.
//
// Invariant: the text of a kernel ([Key]) depends on expressions, dtypes, ranks and access classes. Sizes,
// strides, offsets and scalars are parameters, so that one kernel serves every size.
//
// Start reading at kernel.go; then build.go and eval.go (the meaning of each operation).
//
// loopir imports ir only.
package loopir
