package gpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/loopir"
)

// storageBytes is the width of an element of t in device memory; 0: t is not supported. Halves take two bytes, whether
// the shader sees f16 or packed words.
func storageBytes(t ir.DType, i64 bool) int {
	switch t {
	case ir.Bool, ir.I32, ir.U32, ir.F32, ir.U8, ir.I8, ir.I16, ir.U16:
		return 4
	case ir.F16, ir.BF16:
		return 2
	case ir.I64:
		if i64 {
			return 8
		}
		return 4
	}
	return 0
}

// same reports that canonical and stored forms agree.
func same(t ir.DType, width int) bool { return t.Size() == width }

// toStorage converts n elements from canonical src to dst. Device memory is little-endian, and so are the hosts that
// WebGPU runs on; canonical data is in host order.
func toStorage(t ir.DType, width int, dst, src []byte) error {
	if same(t, width) {
		copy(dst, src)
		return nil
	}
	switch t {
	case ir.Bool:
		for i, v := range src {
			x := uint32(0)
			if v != 0 {
				x = 1
			}
			binary.LittleEndian.PutUint32(dst[4*i:], x)
		}
		return nil
	case ir.I64:
		for i := 0; i < len(src)/8; i++ {
			v := int64(binary.LittleEndian.Uint64(src[8*i:]))
			if v < math.MinInt32 || v > math.MaxInt32 {
				return fmt.Errorf("int64 value out of the range of a device without 64-bit integers: got %d, want -2147483648 to "+
					"2147483647", v)
			}
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(int32(v)))
		}
		return nil
	}
	if t.IsNarrow() {
		for i := range len(src) / t.Size() {
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(loopir.LoadBits(t, src, int64(i))))
		}
		return nil
	}
	panic("BUG: gpu: no conversion of " + t.String())
}

// fromStorage converts stored src to canonical dst.
func fromStorage(t ir.DType, width int, dst, src []byte) {
	if same(t, width) {
		copy(dst, src)
		return
	}
	switch t {
	case ir.Bool:
		for i := range dst {
			dst[i] = 0
			if binary.LittleEndian.Uint32(src[4*i:]) != 0 {
				dst[i] = 1
			}
		}
		return
	case ir.I64:
		for i := 0; i < len(dst)/8; i++ {
			binary.LittleEndian.PutUint64(dst[8*i:], uint64(int64(int32(binary.LittleEndian.Uint32(src[4*i:])))))
		}
		return
	}
	if t.IsNarrow() {
		for i := range len(dst) / t.Size() {
			loopir.StoreBits(t, dst, int64(i), uint64(binary.LittleEndian.Uint32(src[4*i:])))
		}
		return
	}
	panic("BUG: gpu: no conversion of " + t.String())
}

func wordBytes(w []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(w))), 4*len(w))
}

func floatBytes(f []float32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(f))), 4*len(f))
}

func intBytes(v []int32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}
