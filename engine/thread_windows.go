package engine

import "syscall"

var currentThreadID = syscall.NewLazyDLL("kernel32.dll").NewProc("GetCurrentThreadId")

// threadID names the calling OS thread; cgo callbacks stay on their thread.
func threadID() int64 {
	id, _, _ := currentThreadID.Call()
	return int64(id)
}
