// Package wgpu is the WebGPU driver of package gpu over wgpu-native. It exports [Driver].
//
// By default the binding is github.com/oliverbestmann/webgpu (wgpu-native 29). It makes instances and finds adapters.
// All other calls go to the library's C functions, which abi.h declares, for three reasons: the Go API has no trusted
// shader modules; it has no immediates; and a whole program is encoded in one call from Go to C.
//
// With the build tag cogentcore the binding is github.com/cogentcore/webgpu (core WebGPU only), through its Go API.
//
// Nothing happens at import. Start reading at driver.go; native.c encodes programs, core.go is the other binding.
//
// wgpu imports gpu; capi and the commands that measure import wgpu.
package wgpu
