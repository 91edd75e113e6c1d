// Package reference is a device that runs every step through the interpreter of its launch: slow, and simple enough to
// be right by reading. Fuzzers and tests compare the CPU and GPU devices with it.
//
// Key type: [Device]. Device.Faults injects failures. Device.Lag delays submissions, so that reuse of a buffer before
// its fence gives a wrong result.
//
// reference imports kernels/device and kernels/loopir; capi and engine tests import it.
package reference
