// Package wgsl prints programs of the GPU IR as WGSL.
//
// [Print] takes a gpuir.Program and [Options] and gives a [Module]: the text, and the layout of its bindings as data.
//
// Invariant: the text is byte-stable. Equal programs and options give equal text, so that the text can key pipeline
// caches.
//
// Start reading at print.go; expr.go prints expressions, helpers.go the functions that WGSL lacks.
//
// wgsl imports kernels/gpuir, kernels/loopir and ir; gpu imports wgsl.
package wgsl
