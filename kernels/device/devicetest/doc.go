// Package devicetest is the conformance suite of devices: it checks what kernels/device.Device requires against the
// interpreters of the launches.
//
//	devicetest.Run(t, func() device.Device { ... })
//
// Start reading at suite.go. Only tests of device implementations import devicetest.
package devicetest
