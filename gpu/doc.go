// Package gpu is the WebGPU device: it implements kernels/device.Device over a [Driver], the part of WebGPU that a
// tensor engine needs.
//
// [Open] gives a [Device]. Its Build translates a list of steps once into records; a run encodes them with one call of
// the driver into one command encoder, which it submits in a few parts. Independent steps of the same code share a
// dispatch (schedule.go), so that an optimizer's step over a whole model is a few dispatches.
//
// Parameters travel as immediates, or, where those are missing or too small, through a uniform buffer of the program
// that is copied when its content changes. Uploads go through mapped staging buffers.
//
// Invariant: uploads, runs and reads take effect in the order of the calls. Uploads are copies at the head of the next
// submission, which orders them after everything submitted before.
//
// Several goroutines compile the pipelines of a program. They may do so while programs run (pipelines.go).
//
// With [Device.SetAutotune] the tiles of products are timed on the device when a program is built (autotune.go); the
// fastest is kept in a file for later processes (autotune_cache.go).
//
// Each kind of launch has a code generator (code.go). A kind that this package does not know may bring its own
// ([Generator]). Dependences between steps follow from the buffers that a launch declares.
//
// Key types: [Device], [Options], [Driver], [Context], [Record]. Drivers are gpu/wgpu (wgpu-native) and gpu/fake
// (memory only, with faults to inject). No adapter is touched before [Adapters] or [Open] is called.
//
// Start reading at device.go; then build.go, run.go and driver.go.
//
// gpu imports kernels/device, kernels/gpucode, kernels/wgsl and ir; capi and the commands that measure import gpu.
package gpu
