// Command attentiontiles times tile configurations of the attention generator on a GPU, for the table in
// kernels/gpucode: causal attention in float32. It prints one line for each shape, pass and tile, with the largest
// difference from the results of the tile that kernels/gpucode chooses, relative to the largest of these results.
//
//	go run ./cmd/attentiontiles 4x12x1024x64 1x16x4096x128
//
// Shapes are batch, heads, length and width. It uses gpu/wgpu and kernels/gpucode directly and nothing of the engine.
package main
