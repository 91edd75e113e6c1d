// Package wgpu is the WebGPU driver of package gpu over wgpu-native.
//
// By default the binding is github.com/oliverbestmann/webgpu (wgpu-native 29),
// used for instances and adapters; everything after that calls the library's C
// functions through declarations of our own (abi.h), because the Go API has no
// trusted shader modules and no immediates, and because a whole program must be
// encoded in one call. With the build tag cogentcore the binding is
// github.com/cogentcore/webgpu (core WebGPU only), through its Go API.
//
// It exports [Driver]. Only programs that open devices import it; nothing
// happens at import.
package wgpu
