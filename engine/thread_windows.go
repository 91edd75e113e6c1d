package engine

import "syscall"

var currentThreadID = syscall.NewLazyDLL("kernel32.dll").NewProc("GetCurrentThreadId")

// threadID returns the number of the calling OS thread; a cgo callback stays on its thread.
func threadID() int64 {
	id, _, _ := currentThreadID.Call()
	return int64(id)
}
