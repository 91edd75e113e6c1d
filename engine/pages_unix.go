//go:build unix

package engine

import (
	"os"
	"syscall"
)

// mapFile maps a whole file, nil where the system does not. A write to the memory does not reach the file.
func mapFile(f *os.File) []byte {
	info, err := f.Stat()
	if err != nil || info.Size() <= 0 || int64(int(info.Size())) != info.Size() {
		return nil
	}
	b, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE)
	if err != nil {
		return nil
	}
	return b
}

func unmap(b []byte) { _ = syscall.Munmap(b) }
