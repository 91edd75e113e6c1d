package main

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"unsafe"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/engine/op"
)

// guard is deferred by every export: a panic becomes a status. what names the
// export, or with op not 0 the operator.
func guard(what string, id op.OpID, status *C.int32_t) {
	r := recover()
	if r == nil {
		return
	}
	if e, ok := r.(error); ok {
		var known *ir.Error
		if errors.As(e, &known) {
			*status = failed(known)
			return
		}
	}
	if d := op.DefOf(id); d != nil {
		what = d.Parsed.Full
	}
	msg := fmt.Sprintf("%s: internal error: %v", what, r)
	if os.Getenv("TORCHLETTE_DEBUG") != "" {
		msg += "\n" + string(debug.Stack())
	} else if _, file, line, ok := panicSite(); ok {
		msg += fmt.Sprintf(" (at %s:%d)", file, line)
	}
	*status = fail(ir.ErrInternal, 0, msg)
}

// panicSite finds the first frame below the runtime's own panic frames.
func panicSite() (fn, file string, line int, ok bool) {
	var pcs [24]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if len(f.Function) < 8 || f.Function[:8] != "runtime." {
			return f.Function, f.File, f.Line, f.File != ""
		}
		if !more {
			return "", "", 0, false
		}
	}
}

// failed records err, if any, and gives its status.
func failed(err *ir.Error) C.int32_t {
	if err == nil {
		return 0
	}
	return fail(err.Code, err.Site, err.Msg)
}

// sliced is failed for calls that may still be at work.
func sliced(pending bool, err *ir.Error) C.int32_t {
	if err == nil && pending {
		return C.TL_PENDING
	}
	return failed(err)
}

func fail(code ir.Code, site uint32, msg string) C.int32_t {
	C.tlgo_fail(C.int32_t(code), C.uint32_t(site), (*C.char)(unsafe.Pointer(unsafe.StringData(msg))), C.size_t(len(msg)))
	return C.int32_t(code)
}
