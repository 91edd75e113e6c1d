// Package interp is a device that runs every step through the interpreter of
// kernels/loopir: slow, and obviously right. Fuzzers and tests compare the CPU and GPU
// devices with it; Device.Faults injects failures and Device.Lag holds submissions
// back, so that reuse before the fence shows.
//
// Key type: [Device]. It imports device and loopir; engine tests and capi import it.
package reference
