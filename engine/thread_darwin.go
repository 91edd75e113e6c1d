package engine

import "syscall"

// threadID names the calling OS thread; cgo callbacks stay on their thread.
func threadID() int64 {
	id, _, _ := syscall.RawSyscall(syscall.SYS_THREAD_SELFID, 0, 0, 0)
	return int64(id)
}
