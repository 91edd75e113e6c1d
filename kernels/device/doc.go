// Package device is the interface between the engine and a device: buffers, transfers, and programs that are built once
// from a list of steps and run many times.
//
// Key types: [Device], [Step], [Program], [Binding], [Caps]. A [Step] holds a launch.Op with its buffer slots and
// parameters. A new kind of launch is a type with the methods of launch.Op, and code in each device.
//
// Invariants: work is done in the order of submission; a [Fence] orders a buffer's reuse after its last user; data
// errors are reported by [Device.TakeFault], never by Run. kernels/device/devicetest checks every device for them.
//
// Start reading at device.go; stop.go says how a run is interrupted.
//
// device imports ir, kernels/loopir and kernels/launch. kernels/cpu, kernels/reference and gpu implement it.
package device
