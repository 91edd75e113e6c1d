package wgsl

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Options are the features of the device.
type Options struct {
	// Immediates: parameters are `var<immediate>`; otherwise they are in a uniform buffer, the last binding.
	Immediates bool
	F16        bool // shader-f16; otherwise halves are packed in pairs in u32
	I64        bool // must equal gpucode.Options.I64
	F32Atomics bool // native atomicAdd on f32; otherwise compare-and-swap
	// Poly selects our own formulas for functions that the device computes too coarsely.
	Poly Func
}

// Func is a set of float functions.
type Func uint32

// The functions whose accuracy differs between devices.
const (
	FuncSin Func = 1 << iota
	FuncCos
	FuncExp
	FuncLog
	FuncTanh
	FuncPow
	FuncSqrt
	FuncDiv
	// FuncExp2 is exp2 between -128 and 128; our exp uses it where it is accurate.
	FuncExp2
)

// BindKind is the kind of a binding.
type BindKind uint8

// The bindings, in this order in group 0: the storage buffers of the kernel in order, then the error word where the
// kernel checks, then the parameters unless they are immediates.
const (
	BindStorage BindKind = iota
	BindScratch          // array<u32>: partial results between passes; after the storage buffers
	BindError            // array<atomic<u32>, 4>: event+1, element low, element high, unused
	BindParams           // uniform
)

// Binding is one entry of the bind group layout; its number is its index.
type Binding struct {
	Kind     BindKind
	Buf      int // of the kernel, for BindStorage
	ReadOnly bool
}

// Word is one 32-bit parameter word.
type Word struct {
	Param int // -1: the event number
	High  bool
	// Signed: the 64-bit slot must fit an i32, as sizes, strides and offsets must.
	Signed bool
}

// Module is a printed program.
type Module struct {
	Text       string
	Entry      string
	Bindings   []Binding
	Words      []Word
	Immediates bool
	Workgroup  int
	// SharedBytes is the workgroup memory, for a check against the device's limit.
	SharedBytes int
}

// ParamBytes is the size of the parameter block.
func (m *Module) ParamBytes() int { return (4*len(m.Words) + 15) &^ 15 }

// Pack writes the parameter block. It fails on a size, stride or offset beyond 32 bits.
func (m *Module) Pack(dst []byte, params []uint64, event uint32) error {
	for i, w := range m.Words {
		v := event
		if w.Param >= 0 {
			x := params[w.Param]
			if w.Signed && (int64(x) > math.MaxInt32 || int64(x) < math.MinInt32) {
				return fmt.Errorf("kernel parameter %d: %d does not fit 32 bits", w.Param, int64(x))
			}
			if w.High {
				x >>= 32
			}
			v = uint32(x)
		}
		binary.LittleEndian.PutUint32(dst[4*i:], v)
	}
	return nil
}
