// Package trial times programs of the kernel generators on a GPU.
//
// A [Device] makes buffers and dispatches; a [Program] is what one trial submits, and
// [Device.Race] times a list of them in turns. The commands beside it import it, nothing else.
package trial
