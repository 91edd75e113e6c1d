// Package devicetest is the conformance suite of devices: what kernels/device.Device
// promises, checked against the interpreter of kernels/loopir.
//
//	devicetest.Run(t, func() device.Device { ... })
//
// Tests of device implementations import it, and nothing else.
package devicetest
