package engine

import "syscall"

// threadID returns the number of the calling OS thread; a cgo callback stays on its thread.
func threadID() int64 { return int64(syscall.Gettid()) }
