// Package launch describes the launches that are no loop kernel: matrix products,
// attention, factorisations, sorts, copies and fills.
//
// Each is a descriptor ([Gemm], [Attention], [Factor], [Sort]) with the layout of its
// parameters and buffers and an interpreter, which is its oracle. Devices generate
// code for the descriptors: kernels/gpucode for GPUs, kernels/cpu in C.
//
// launch imports ir and kernels/loopir.
package launch
