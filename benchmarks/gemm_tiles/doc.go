// Command gemm_tiles times tile configurations of the GEMM generator on a GPU, for
// the table in kernels/tile. It prints one line a shape, tile and number of parts of K.
//
// Shapes are MxNxK, with nt for a transposed second operand or tn for a transposed first
// one, conv:NxCxHxOxK/1 for a convolution of N images of C channels and HxH elements with O kernels of KxK, or convdw:NxCxHxOxK/B
// for its weight gradient in parts of B images; a product whose K is shared by several workgroups is timed with its second pass.
//
//	go run ./benchmarks/gemm_tiles 4096x4096x4096 512x3072x768nt
//
// Nothing imports it.
package main
