package main

/*
#include "shim.h"
*/
import "C"

import (
	"unsafe"

	"github.com/torchlette/torchlette/engine"
)

//export tlgo_trace_begin
func tlgo_trace_begin(args *C.uint64_t, n C.int32_t, placeholders *C.tl_out) (st C.int32_t) {
	defer guard("capture", 0, &st)
	return failed(instance().BeginTrace(view[uint64](unsafe.Pointer(args), n),
		view[result](unsafe.Pointer(placeholders), n)))
}

//export tlgo_trace_end
func tlgo_trace_end(keep C.int32_t, results *C.uint64_t, n C.int32_t, made *C.uint8_t, flushes *C.int32_t,
	id *C.uint64_t) (st C.int32_t) {
	defer guard("capture", 0, &st)
	k, flush, err := instance().EndTrace(keep != 0, view[uint64](unsafe.Pointer(results), n),
		view[bool](unsafe.Pointer(made), n))
	*id, *flushes = C.uint64_t(k), 0
	if flush {
		*flushes = 1
	}
	return failed(err)
}

//export tlgo_captured_call
func tlgo_captured_call(id C.uint64_t, args *C.uint64_t, n C.int32_t, numbers *C.double, supplied C.int32_t,
	sourceLoc C.uint32_t, outs *C.tl_out, limit C.int32_t, count *C.int32_t) (st C.int32_t) {
	defer guard("captured function", 0, &st)
	k, err := instance().CallCaptured(uint64(id), view[uint64](unsafe.Pointer(args), n),
		view[float64](unsafe.Pointer(numbers), supplied), uint32(sourceLoc), view[result](unsafe.Pointer(outs), limit))
	*count = C.int32_t(k)
	return failed(err)
}

//export tlgo_capture_tangents
func tlgo_capture_tangents(args *C.uint64_t, n C.int32_t, results *C.uint64_t, m C.int32_t,
	id *C.uint64_t) (st C.int32_t) {
	defer guard("capture", 0, &st)
	k, err := instance().CaptureTangents(view[uint64](unsafe.Pointer(args), n), view[uint64](unsafe.Pointer(results), m))
	*id = C.uint64_t(k)
	return failed(err)
}

//export tlgo_body_begin
func tlgo_body_begin(args *C.uint64_t, n C.int32_t, placeholders *C.tl_out) (st C.int32_t) {
	defer guard("loop", 0, &st)
	return failed(instance().BeginBody(view[uint64](unsafe.Pointer(args), n),
		view[result](unsafe.Pointer(placeholders), n)))
}

//export tlgo_body_end
func tlgo_body_end(keep C.int32_t, results *C.uint64_t, n, fresh C.int32_t, id *C.uint64_t) (st C.int32_t) {
	defer guard("loop", 0, &st)
	k, err := instance().EndBody(keep != 0, view[uint64](unsafe.Pointer(results), n), int(fresh))
	*id = C.uint64_t(k)
	return failed(err)
}

//export tlgo_loop
func tlgo_loop(body C.uint64_t, shape *C.int64_t, args *C.uint64_t, n C.int32_t, sourceLoc C.uint32_t, outs *C.tl_out,
	limit C.int32_t, count *C.int32_t) (st C.int32_t) {
	defer guard("loop", 0, &st)
	l := view[int64](unsafe.Pointer(shape), int32(5))
	k, err := instance().Loop(&engine.LoopCall{Body: uint64(body), Carries: int(l[0]), Xs: int(l[1]), Length: l[2],
		Reverse: l[3] != 0, While: l[4] != 0, Args: view[uint64](unsafe.Pointer(args), n), SourceLoc: uint32(sourceLoc)},
		view[result](unsafe.Pointer(outs), limit))
	*count = C.int32_t(k)
	return failed(err)
}

//export tlgo_captured_free
func tlgo_captured_free(id C.uint64_t) (st C.int32_t) {
	defer guard("captured function", 0, &st)
	instance().ForgetCaptured(uint64(id))
	return 0
}
