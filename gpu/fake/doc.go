// Package fake is a WebGPU driver in memory, for tests of package gpu and of the engine: it interprets programs, and
// fails where a test asks for it.
//
// Key types: [Driver], with [Faults] to inject, counters of live objects, and a clock that a test sets.
//
// fake imports gpu, kernels/gpuir and kernels/wgsl. Only tests import fake.
package fake
