// Package launch describes the launches that are no loop kernel: matrix products, attention, factorisations, sorts,
// copies and fills.
//
// Each is a descriptor ([Gemm], [Attention], [Factor], [Sort], [Copy], [Fill]) that implements [Op]: it declares its
// buffers with their access and its parameters, has a key and a cost, and interprets itself, which is the oracle for
// the devices. kernels/gpucode generates GPU programs from descriptors; kernels/cpu has C code for them.
//
// Invariant: a descriptor holds no size. Sizes are parameters, whose order the method Layout gives.
//
// Start reading at op.go; then gemm.go.
//
// launch imports ir and kernels/loopir.
package launch
