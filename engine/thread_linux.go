package engine

import "syscall"

// threadID names the calling OS thread; cgo callbacks stay on their thread.
func threadID() int64 { return int64(syscall.Gettid()) }
