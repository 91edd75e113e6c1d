// Package fake is a WebGPU driver in memory, for tests of what stands on a
// device: it interprets programs and can be told to fail.
//
// Key types: [Driver], with [Faults] to inject and counters of live objects.
// Only tests import it.
package fake
