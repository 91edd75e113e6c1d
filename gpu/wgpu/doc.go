// Package wgpu is the WebGPU driver of package gpu over wgpu-native. It exports [Driver].
//
// By default the binding is github.com/oliverbestmann/webgpu (wgpu-native 29), used for instances and adapters.
// Everything after that calls the library's C functions through our own declarations (abi.h), for three reasons: the Go
// API has no trusted shader modules, it has no immediates, and a whole program must be encoded in one call.
//
// With the build tag cogentcore the binding is github.com/cogentcore/webgpu (core WebGPU only), through its Go API.
//
// Nothing happens at import. Start reading at driver.go; native.c encodes programs, core.go is the other binding.
//
// wgpu imports gpu; capi and the commands that measure import wgpu.
package wgpu
