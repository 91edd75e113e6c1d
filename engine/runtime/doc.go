// Package runtime runs plans. It acquires every buffer of a plan before the first submit, binds buffers, offsets and
// scalars, runs the segments in order, and owns the storages of the results.
//
// A failure before the first submit is an [ErrAdmission]: nothing has changed. A run can be stopped between two steps
// and resumed there.
//
// Key types: [Executor], [DeviceStorage] (memory of a value), [Pool] (free buffers by size class), [Timing] (one step
// of a profiled run). runtime imports ir, engine/compile and kernels/device; engine imports it.
package runtime
