// Package trial times programs of the kernel generators on a GPU.
//
// A [Device] makes buffers and dispatches; a [Program] is what one trial submits, and [Device.Race] times a list of
// programs in turns, so that a change of the GPU's clock meets all of them.
//
// Only cmd/gemmtiles and cmd/attentiontiles import trial.
package trial
