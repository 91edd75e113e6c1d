// Package device is what the engine asks of a device: buffers, transfers, and
// programs built once from a list of steps and run many times.
//
// Key types: [Device], [Step], [Program], [Binding], [Caps]. Implementations are
// kernels/cpu and gpu; devicetest is the conformance suite that each passes.
//
// A [Step] holds a launch.Op: a new kind of launch is a type with those methods, and code in each device.
//
// device imports ir and kernels/loopir.
package device
