// Package kir is the kernel IR.
//
// Level 1, [Kernel]: a data-parallel program over an outer and an inner index
// space, in stages. It covers maps, reductions, row programs (softmax, layer
// norm), gathers and scatters in one form, and has three consumers: the
// interpreter here (the oracle), the CPU runner (kernels/cpu), and, by way of
// level 2, WGSL (kernels/wgsl).
//
// Level 2, [Proc]: statements over the same scalar expressions, with workgroup
// memory, barriers and vector loads. Generators in kernels/tile make them from
// level 1 kernels and from the descriptors [Gemm], [Attention] and [Sort].
//
// What a step of a program runs is a [LaunchOp]: a [Kernel], or a descriptor of another kind.
//
// The text of a kernel depends on expressions, dtypes, ranks and access
// classes; sizes, strides, offsets and scalars are parameters.
//
// kir imports engine/ir only.
package kir
