package ir

import "math"

// DType names an element type. The numbering is part of the C ABI.
type DType uint8

// The element types. F16 and BF16 are storage types with f32 arithmetic.
const (
	InvalidDType DType = iota
	Bool
	I32
	I64
	U32
	F16
	BF16
	F32
	F64
	NumDTypes
)

var dtypeNames = [NumDTypes]string{"invalid", "bool", "int32", "int64", "uint32", "float16", "bfloat16", "float32", "float64"}

// String gives PyTorch's name without the "torch." prefix.
func (d DType) String() string {
	if d < NumDTypes {
		return dtypeNames[d]
	}
	return "invalid"
}

var dtypeSizes = [NumDTypes]int{0, 1, 4, 8, 4, 2, 2, 4, 8}

// Size is the width of one element in bytes in the host's canonical form
// (the form of NumPy and of the CPU device). A GPU may store wider.
func (d DType) Size() int { return dtypeSizes[d] }

// IsFloat reports a floating point type.
func (d DType) IsFloat() bool { return d >= F16 && d <= F64 }

// IsInt reports an integer type; Bool is none.
func (d DType) IsInt() bool { return d >= I32 && d <= U32 }

// Category orders types for promotion: bool 0, integer 1, float 2.
func (d DType) Category() int {
	switch {
	case d.IsFloat():
		return 2
	case d.IsInt():
		return 1
	}
	return 0
}

// ComputeType is the type in which kernels do arithmetic on d.
func (d DType) ComputeType() DType {
	if d == F16 || d == BF16 {
		return F32
	}
	return d
}

// promotion is PyTorch's table for two tensors of the same priority.
// Source: the table in PyTorch's "Tensor Attributes" documentation, restricted
// to our types. uint32 mixed with a signed type gives int64.
var promotion = func() (t [NumDTypes][NumDTypes]DType) {
	rank := map[DType]int{Bool: 0, U32: 1, I32: 2, I64: 3, F16: 4, BF16: 5, F32: 6, F64: 7}
	for a := Bool; a < NumDTypes; a++ {
		for b := Bool; b < NumDTypes; b++ {
			r := a
			if rank[b] > rank[a] {
				r = b
			}
			switch {
			case a == F16 && b == BF16, a == BF16 && b == F16:
				r = F32
			case a == U32 && b == I32, a == I32 && b == U32:
				r = I64
			}
			t[a][b] = r
		}
	}
	return t
}()

// Promote is the result type of an operation on a and b.
func Promote(a, b DType) DType { return promotion[a][b] }

// EncodeFloat gives the slot bits of v in the compute type of d.
func EncodeFloat(d DType, v float64) uint64 {
	switch d.ComputeType() {
	case F32:
		return uint64(math.Float32bits(float32(v)))
	case F64:
		return math.Float64bits(v)
	case I32:
		return uint64(uint32(int32(int64(v))))
	case U32:
		return uint64(uint32(int64(v)))
	case I64:
		return uint64(int64(v))
	case Bool:
		if v != 0 {
			return 1
		}
	}
	return 0
}

// EncodeInt gives the slot bits of v in the compute type of d.
func EncodeInt(d DType, v int64) uint64 {
	switch d.ComputeType() {
	case F32:
		return uint64(math.Float32bits(float32(v)))
	case F64:
		return math.Float64bits(float64(v))
	case I32, U32:
		return uint64(uint32(v))
	case I64:
		return uint64(v)
	case Bool:
		if v != 0 {
			return 1
		}
	}
	return 0
}

// DecodeFloat reads slot bits of the compute type of d as a float64.
func DecodeFloat(d DType, bits uint64) float64 {
	switch d.ComputeType() {
	case F32:
		return float64(math.Float32frombits(uint32(bits)))
	case F64:
		return math.Float64frombits(bits)
	case I32:
		return float64(int32(uint32(bits)))
	case U32:
		return float64(uint32(bits))
	case I64:
		return float64(int64(bits))
	case Bool:
		if bits != 0 {
			return 1
		}
	}
	return 0
}
