// Package trial times programs of the kernel generators on a GPU.
//
// A [Device] makes buffers and dispatches. A [Program] is one trial's submission. [Device.Race] times a list of
// programs in turns, so that a change of the GPU's clock affects all of them.
//
// Only cmd/gemmtiles and cmd/attentiontiles import trial.
package trial
