// Package wgsl prints level 2 programs as WGSL, with their binding layout as data.
//
// Key types: [Options], [Module]; Print(p *gpuir.Program, o Options) (*Module, error) makes one from the other. The
// text is byte-stable: equal programs and options give equal text, so that it can key pipeline caches.
//
// wgsl imports kernels/loopir and ir; gpu imports wgsl.
package wgsl
