package main

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"unsafe"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// guard turns a panic into a status; every export defers it. The error names operator id or, for id 0, the export what.
func guard(what string, id op.OpID, status *C.int32_t) {
	if r := recover(); r != nil {
		*status = C.int32_t(caught(r, what, id))
	}
}

// caught stores a panic's value as the thread's last failure and returns its code.
func caught(r any, what string, id op.OpID) ir.Code {
	if e, ok := r.(error); ok {
		var known *ir.Error
		if errors.As(e, &known) {
			fail(known.Code, known.SourceLoc, known.Msg)
			return known.Code
		}
	}
	if d := op.DefOf(id); id != 0 && d != nil {
		what = d.Parsed.Full
	}
	fail(ir.ErrInternal, 0, what+": "+ir.PanicText(r, getenv("TORCHLETTE_DEBUG") != ""))
	return ir.ErrInternal
}

// failed stores err, if any, as the thread's last failure and returns its status.
func failed(err *ir.Error) C.int32_t {
	if err == nil {
		return 0
	}
	return fail(err.Code, err.SourceLoc, err.Msg)
}

// sliced is failed for calls in time slices, which may still be pending.
func sliced(pending bool, err *ir.Error) C.int32_t {
	if err == nil && pending {
		return C.TL_PENDING
	}
	return failed(err)
}

// lastError returns the last failure of the calling thread.
func lastError() (code ir.Code, msg string) {
	e := C.tl_last_error()
	return ir.Code(e.code), C.GoString(e.message)
}

func fail(code ir.Code, sourceLoc uint32, msg string) C.int32_t {
	C.tlgo_fail(C.int32_t(code), C.uint32_t(sourceLoc), (*C.char)(unsafe.Pointer(unsafe.StringData(msg))),
		C.size_t(len(msg)))
	return C.int32_t(code)
}
