// Command gemm_tiles times tile configurations of the GEMM generator on a GPU, for
// the table in kernels/tile. It prints one line a shape, tile and number of parts of K.
//
// Shapes are MxNxK, with nt for a transposed second operand or tn for a transposed first
// one; a product whose K is shared by several workgroups is timed with its second pass.
//
//	go run ./benchmarks/gemm_tiles 4096x4096x4096 512x3072x768nt
//
// Nothing imports it.
package main
