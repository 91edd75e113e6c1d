package engine

import "syscall"

// threadID returns the number of the calling OS thread; a cgo callback stays on its thread.
func threadID() int64 {
	id, _, _ := syscall.RawSyscall(syscall.SYS_THREAD_SELFID, 0, 0, 0)
	return int64(id)
}
