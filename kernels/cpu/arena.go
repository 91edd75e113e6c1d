package cpu

// #include <string.h>
// #include "vector/cpu.h"
import "C"

import "unsafe"

// arena allocates C memory that is released all at once. The memory holds no Go pointers.
type arena struct {
	blocks []unsafe.Pointer
	free   []byte // the unused end of the last block
	total  int64  // bytes of the blocks
}

// Bytes of a block: each block is twice as large as the one before, within these bounds. The first is small, since many
// kernels need little.
const (
	firstBlock = 4 << 10
	mostBlock  = 256 << 10
)

// array gives zeroed C memory for n values of T, whose alignment is at most 16.
func array[T any](a *arena, n int) []T {
	if n == 0 {
		return nil
	}
	var zero T
	bytes := (n*int(unsafe.Sizeof(zero)) + 15) &^ 15
	if bytes > len(a.free) {
		size := max(bytes, min(firstBlock<<len(a.blocks), mostBlock))
		m := C.tl_alloc(C.int64_t(size))
		if m == nil {
			panic(outOfMemory(int64(size)))
		}
		C.memset(m, 0, C.size_t(size))
		a.blocks, a.total = append(a.blocks, m), a.total+int64(size)
		a.free = unsafe.Slice((*byte)(m), size)
	}
	m := unsafe.Pointer(unsafe.SliceData(a.free))
	a.free = a.free[bytes:]
	return unsafe.Slice((*T)(m), n)
}

// release frees the memory.
func (a *arena) release() {
	for _, m := range a.blocks {
		C.tl_cpu_free(m)
	}
	*a = arena{}
}
