// Command gemmtiles times tile configurations of the GEMM generator on a GPU, for the table in kernels/gpucode. It
// prints one line for each shape, tile and number of parts of K.
//
//	go run ./cmd/gemmtiles 4096x4096x4096 512x3072x768nt 768x3072x512tn 768x3072x512tns
//
// Shapes:
//
//   - MxNxK: a product. A suffix nt transposes the second operand, tn the first. A further s asks for the sums of the
//     first operand along K as a second result.
//   - conv:NxCxHxOxK/1: a convolution of N images of C channels and HxH elements with O kernels of KxK.
//   - convdw:NxCxHxOxK/B: its weight gradient, in parts of B images.
//
// Without shapes it takes squares of 512 to 4096, and GPT-2's products with 512 rows and with 512 terms. The time of a
// product whose K is shared by several workgroups includes its second pass.
//
//	go run ./cmd/gemmtiles choices
//
// The argument choices, before the shapes, compares the table with the autotuner (torchlette.backends.wgpu.benchmark):
// one line for each shape has the table's choice, the tuned one, and the ratio of the second's time to the first's.
//
// On a software adapter the tiles are those of a GPU. Nothing imports gemmtiles.
package main
