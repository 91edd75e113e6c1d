// Package devicetest is the conformance suite of devices: what engine/device.Device
// promises, checked against the interpreter of kernels/kir.
//
//	devicetest.Run(t, func() device.Device { ... })
//
// Tests of device implementations import it, and nothing else.
package devicetest
