package ir

import "math"

// DType names an element type. The numbering is part of the C ABI.
type DType uint8

// The element types. F16 and BF16 are storage types with f32 arithmetic, U8, I8 and I16 such with i32 arithmetic:
// a store keeps the low bits.
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
	U8
	I8
	I16
	NumDTypes
)

// DTypeInfo is the facts of an element type that other languages need too: cmd/opgen writes their tables from it.
type DTypeInfo struct {
	Name   string // PyTorch's, without the "torch." prefix
	Alias  string // PyTorch's second name, "" for none
	Scalar string // in PyTorch's messages: "Float" of float32
	C      string // the C++ type that some of PyTorch's messages name
	Short  string // in constants of the kernels
	Size   int    // bytes of an element, in the form of NumPy and of the CPU device
	Format string // the letter of Python's struct module, "" for none
}

var dtypeInfos = [NumDTypes]DTypeInfo{
	{Name: "invalid", Scalar: "Undefined"},
	{"bool", "", "Bool", "bool", "BOOL", 1, "?"},
	{"int32", "int", "Int", "int", "I32", 4, "i"},
	{"int64", "long", "Long", "long int", "I64", 8, "q"},
	{"uint32", "", "UInt32", "unsigned int", "U32", 4, "I"},
	{"float16", "half", "Half", "c10::Half", "F16", 2, "e"},
	{"bfloat16", "", "BFloat16", "c10::BFloat16", "BF16", 2, ""},
	{"float32", "float", "Float", "float", "F32", 4, "f"},
	{"float64", "double", "Double", "double", "F64", 8, "d"},
	{"uint8", "", "Byte", "unsigned char", "U8", 1, "B"},
	{"int8", "", "Char", "signed char", "I8", 1, "b"},
	{"int16", "short", "Short", "short int", "I16", 2, "h"},
}

// Info gives the facts of d; those of InvalidDType when d is none.
func (d DType) Info() DTypeInfo {
	if d >= NumDTypes {
		d = InvalidDType
	}
	return dtypeInfos[d]
}

// String gives PyTorch's name without the "torch." prefix.
func (d DType) String() string {
	if d >= NumDTypes {
		d = InvalidDType
	}
	return dtypeInfos[d].Name
}

// ScalarType gives the name that PyTorch's messages use: "Float" of float32.
func (d DType) ScalarType() string { return dtypeInfos[d].Scalar }

// CName gives the C++ type that some of PyTorch's messages name.
func (d DType) CName() string { return dtypeInfos[d].C }

// Size is the width of one element in bytes in the host's canonical form
// (the form of NumPy and of the CPU device). A GPU may store wider.
func (d DType) Size() int { return dtypeInfos[d].Size }

// IsFloat reports a floating point type.
func (d DType) IsFloat() bool { return d >= F16 && d <= F64 }

// IsInt reports an integer type; Bool is none.
func (d DType) IsInt() bool { return d >= I32 && d <= U32 || d.IsNarrow() }

// IsNarrow reports an integer type of 8 or 16 bits.
func (d DType) IsNarrow() bool { return d >= U8 && d < NumDTypes }

func (d DType) isSigned() bool { return d == I8 || d == I16 || d == I32 || d == I64 }

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
	switch {
	case d == F16 || d == BF16:
		return F32
	case d.IsNarrow():
		return I32
	}
	return d
}

// Wrap is v modulo 2^bits as an element of the integer type d.
func Wrap(d DType, v int64) int64 {
	switch d {
	case U8:
		return int64(uint8(v))
	case I8:
		return int64(int8(v))
	case I16:
		return int64(int16(v))
	case U32:
		return int64(uint32(v))
	case I32:
		return int64(int32(v))
	}
	return v
}

// Limits are the least and the greatest element of an integer type.
func Limits(d DType) (lo, hi int64) {
	switch d {
	case U8, U32:
		return 0, 1<<(8*d.Size()) - 1
	case I64:
		return math.MinInt64, math.MaxInt64
	}
	return -1 << (8*d.Size() - 1), 1<<(8*d.Size()-1) - 1
}

// promotion is PyTorch's table for two tensors of the same priority.
// Source: the table in PyTorch's "Tensor Attributes" documentation, restricted
// to our types. uint32 mixed with a signed type gives int64, uint8 with int8 int16.
var promotion = func() (t [NumDTypes][NumDTypes]DType) {
	rank := map[DType]int{Bool: 0, U8: 1, I8: 2, I16: 3, U32: 4, I32: 5, I64: 6, F16: 7, BF16: 8, F32: 9, F64: 10}
	for a := Bool; a < NumDTypes; a++ {
		for b := Bool; b < NumDTypes; b++ {
			r := a
			if rank[b] > rank[a] {
				r = b
			}
			switch {
			case a == F16 && b == BF16, a == BF16 && b == F16:
				r = F32
			case a == U8 && b == I8, a == I8 && b == U8:
				r = I16
			case a == U32 && b.isSigned(), a.isSigned() && b == U32:
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
		return uint64(uint32(Wrap(d, int64(v))))
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
		return uint64(uint32(Wrap(d, v)))
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
