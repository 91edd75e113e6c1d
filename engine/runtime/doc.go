// Package exec runs plans: it acquires every buffer before the first submit, binds
// slots, offsets and scalars, runs the segments, and owns storage.
//
// Key types: [Executor], [Pool] (buffers by size class, reused only when the last
// user's submission has completed), [Storage]; [Timing] while profiling. exec imports ir, plan and device;
// engine imports it.
package runtime
