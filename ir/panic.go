package ir

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// PanicText describes a panic by the value r that a deferred function has recovered, with the stack or, without one,
// the line that panicked. It must be called before the deferred function returns.
func PanicText(r any, stack bool) string {
	text := fmt.Sprintf("internal error: %v", r)
	if stack {
		return text + "\n" + string(debug.Stack())
	}
	if file, line, ok := panicLine(); ok {
		text += fmt.Sprintf(" (at %s:%d)", file, line)
	}
	return text
}

// panicLine finds the line that panicked: the first frame outside the Go runtime below the runtime's own gopanic.
func panicLine() (file string, line int, ok bool) {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for below := false; ; {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			below = true
		case below && !strings.HasPrefix(f.Function, "runtime."):
			return f.File, f.Line, f.File != ""
		}
		if !more {
			return "", 0, false
		}
	}
}
