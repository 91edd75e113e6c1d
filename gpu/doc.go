// Package gpu is the WebGPU device: it implements kernels/device.Device over a
// [Driver], which is WebGPU reduced to what a tensor engine needs.
//
// A program is translated once, at Build, into records that a driver encodes in
// one call: one command encoder, one submission a run. Steps of one form that do not
// depend on each other are brought together and share a dispatch (schedule.go): an
// optimizer's step over a whole model is a few. Parameters travel as immediates, or, where
// those are missing or too small, through a uniform buffer of the program, copied when its
// content changes. Uploads go through mapped staging buffers and copies at the head of
// the next submission, so that they are ordered after everything submitted
// before.
//
// With [Device.SetAutotune] the tiles of products are chosen by a race on the device (race.go) when a program is
// built, and kept in a file for later processes (tune.go).
//
// Each kind of launch has a code generator (code.go). A launch of a kind that this package does not know may bring its
// own ([Generator]). Which steps depend on each other follows from the buffers that a launch declares.
//
// Key types: [Device], [Options], [Driver], [Context], [Record]. Drivers live in
// gpu/wgpu (wgpu-native) and gpu/fake (memory only, with faults to inject and a clock to set).
// Nothing here touches an adapter before [Adapters] or [Open] is called.
//
// gpu imports kernels/device, ir and kernels; engine/runtime's callers import
// it to open devices.
package gpu
