// Command gemm_tiles times tile configurations of the GEMM generator on a GPU, for
// the table in kernels/gpucode. It prints one line a shape, tile and number of parts of K.
//
// Shapes are MxNxK, with nt for a transposed second operand or tn for a transposed first
// one, conv:NxCxHxOxK/1 for a convolution of N images of C channels and HxH elements with O kernels of KxK, or
// convdw:NxCxHxOxK/B for its weight gradient in parts of B images. An s at the end of nt or tn asks for the sums of the
// first operand along K as a second result. A product whose K is shared by several workgroups is timed with its second
// pass.
//
//	go run ./cmd/gemmtiles 4096x4096x4096 512x3072x768nt 768x3072x512tn 768x3072x512tns
//
// With choices before the shapes, it times for each shape what the library itself would with
// torchlette.backends.wgpu.benchmark on, and prints the table's choice, the tuned one, and the ratio of the second's
// time to the first's. Without shapes it takes squares of 512 to 4096, and GPT-2's products with 512 rows and with 512
// terms. On a software adapter tiles are those of a GPU.
//
//	go run ./cmd/gemmtiles choices
//
// Nothing imports it.
package main
