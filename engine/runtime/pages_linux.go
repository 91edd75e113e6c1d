package runtime

import "syscall"

// dropMapped takes whole pages of a private mapping out of memory. What was written to them is lost.
func dropMapped(b []byte) { _ = syscall.Madvise(b, syscall.MADV_DONTNEED) }
