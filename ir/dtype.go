package ir

import "math"

// DType names an element type. The numbering is part of the C ABI.
type DType uint8

// The element types. A complex type is no type of a graph value: see ComplexLayout. F16 and BF16 are stored as such and
// computed in f32; U8, I8, I16 and U16 are computed in i32, and a store
// keeps the low bits.
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
	U16
	U64
	C64
	C128
	NumDTypes
	// NumStored: the types below it are those of graph values.
	NumStored = C64
)

// DTypeInfo is what other languages need to know of an element type; cmd/opgen writes their tables from it.
type DTypeInfo struct {
	Name     string // PyTorch's, without the "torch." prefix
	Alias    string // PyTorch's second name, "" for none
	Scalar   string // in PyTorch's messages and in names of its classes: "Float" of float32
	C        string // the C++ type that some of PyTorch's messages name
	Short    string // in constants of the kernels and in files of safetensors
	Kind     byte   // NumPy's letter: b a bool, i a signed integer, u an unsigned one, f a float, c a complex number
	Size     int    // bytes of an element, in the form of NumPy and of the CPU device
	Mantissa int    // stored bits of a float's mantissa, 0 of integers and bools
}

var dtypeInfos = [NumDTypes]DTypeInfo{
	{Name: "invalid", Scalar: "Undefined"},
	{"bool", "", "Bool", "bool", "BOOL", 'b', 1, 0},
	{"int32", "int", "Int", "int", "I32", 'i', 4, 0},
	{"int64", "long", "Long", "long int", "I64", 'i', 8, 0},
	{"uint32", "", "UInt32", "unsigned int", "U32", 'u', 4, 0},
	{"float16", "half", "Half", "c10::Half", "F16", 'f', 2, 10},
	{"bfloat16", "", "BFloat16", "c10::BFloat16", "BF16", 'f', 2, 7},
	{"float32", "float", "Float", "float", "F32", 'f', 4, 23},
	{"float64", "double", "Double", "double", "F64", 'f', 8, 52},
	{"uint8", "", "Byte", "unsigned char", "U8", 'u', 1, 0},
	{"int8", "", "Char", "signed char", "I8", 'i', 1, 0},
	{"int16", "short", "Short", "short int", "I16", 'i', 2, 0},
	{"uint16", "", "UInt16", "unsigned short", "U16", 'u', 2, 0},
	{"uint64", "", "UInt64", "unsigned long", "U64", 'u', 8, 0},
	{"complex64", "cfloat", "ComplexFloat", "c10::complex<float>", "C64", 'c', 8, 23},
	{"complex128", "cdouble", "ComplexDouble", "c10::complex<double>", "C128", 'c', 16, 52},
}

// ElementType is the type of a view's elements: of dtype d, or complex with parts of d.
func ElementType(d DType, view LayoutID) DType {
	if view.IsComplex() {
		return d.Complex()
	}
	return d
}

// Info returns the facts of d; those of InvalidDType where d is none.
func (d DType) Info() DTypeInfo {
	if d >= NumDTypes {
		d = InvalidDType
	}
	return dtypeInfos[d]
}

// String is PyTorch's name without the "torch." prefix.
func (d DType) String() string {
	if d >= NumDTypes {
		d = InvalidDType
	}
	return dtypeInfos[d].Name
}

// ScalarType is the name in PyTorch's messages: "Float" for float32.
func (d DType) ScalarType() string { return dtypeInfos[d].Scalar }

// CName is the C++ type that some of PyTorch's messages name.
func (d DType) CName() string { return dtypeInfos[d].C }

// Size is the bytes of an element in canonical form, which is NumPy's and the CPU device's. A GPU may store it wider.
func (d DType) Size() int { return dtypeInfos[d].Size }

// Of each kind the dtypes as bits, made of the table: a question about a dtype is one shift.
var (
	floats   = dtypesWhere(func(x DTypeInfo) bool { return x.Kind == 'f' })
	integers = dtypesWhere(func(x DTypeInfo) bool { return x.Kind == 'i' || x.Kind == 'u' })
	narrows  = integers & dtypesWhere(func(x DTypeInfo) bool { return x.Size < 4 })
	halves   = floats & dtypesWhere(func(x DTypeInfo) bool { return x.Size < 4 })
)

func dtypesWhere(holds func(DTypeInfo) bool) (bits uint64) {
	for d, x := range dtypeInfos {
		if holds(x) {
			bits |= 1 << d
		}
	}
	return bits
}

// IsFloat reports a floating point type.
func (d DType) IsFloat() bool { return floats>>d&1 != 0 }

// IsComplex reports a complex type.
func (d DType) IsComplex() bool { return d == C64 || d == C128 }

// IsInexact reports a floating point or a complex type.
func (d DType) IsInexact() bool { return floats>>d&1 != 0 || d.IsComplex() }

// Real is the type of a complex type's parts; other types are their own.
func (d DType) Real() DType {
	switch d {
	case C64:
		return F32
	case C128:
		return F64
	}
	return d
}

// Complex is the complex type with parts of d, InvalidDType where there is none; complex types are their own.
func (d DType) Complex() DType {
	switch d {
	case F32, C64:
		return C64
	case F64, C128:
		return C128
	}
	return InvalidDType
}

// IsInt reports an integer type; Bool is none.
func (d DType) IsInt() bool { return integers>>d&1 != 0 }

// IsNarrow reports an integer type of 8 or 16 bits.
func (d DType) IsNarrow() bool { return narrows>>d&1 != 0 }

// Category orders types for promotion: bool 0, integer 1, float 2, complex 3.
func (d DType) Category() int {
	switch {
	case d.IsComplex():
		return 3
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
	case halves>>d&1 != 0:
		return F32
	case d.IsNarrow():
		return I32
	}
	return d
}

// Wrap is v modulo 2^bits as an element of the integer type d.
func Wrap(d DType, v int64) int64 {
	x := d.Info()
	above := 64 - 8*x.Size
	switch x.Kind {
	case 'i':
		return v << above >> above
	case 'u':
		return int64(uint64(v) << above >> above)
	}
	return v
}

// Limits are the least and the greatest element of an integer type, as bits of an int64: the greatest of U64 is -1.
func Limits(d DType) (lo, hi int64) {
	x := d.Info()
	if x.Kind == 'u' {
		return 0, int64(^uint64(0) >> (64 - 8*x.Size))
	}
	return math.MinInt64 >> (64 - 8*x.Size), math.MaxInt64 >> (64 - 8*x.Size)
}

// promotion is PyTorch's table for two tensors of the same priority, as "Tensor Attributes" of its documentation has
// it: the higher category wins, then the wider type.
var promotion = func() (t [NumDTypes][NumDTypes]DType) {
	for a := Bool; a < NumDTypes; a++ {
		for b := Bool; b < NumDTypes; b++ {
			t[a][b] = promote(a, b)
		}
	}
	return t
}()

func promote(a, b DType) DType {
	if b.Category() > a.Category() || b.Category() == a.Category() && b.Size() > a.Size() {
		a, b = b, a
	}
	x, y := a.Info(), b.Info()
	switch {
	case a.IsComplex() && b == F64: // its values need wider parts
		return C128
	case a.Category() != b.Category() || a == b:
		return a
	case x.Kind == 'f' && x.Size == y.Size: // neither holds the other's values
		return narrowest('f', 2*x.Size)
	case x.Kind == 'u' && y.Kind == 'i', x.Kind == 'i' && y.Kind == 'u' && x.Size == y.Size:
		return narrowest('i', 2*x.Size)
	}
	return a
}

// narrowest is the first type of a kind with at least size bytes.
func narrowest(kind byte, size int) DType {
	found := InvalidDType
	for d, x := range dtypeInfos {
		if x.Kind == kind && x.Size >= size && (found == InvalidDType || x.Size < found.Size()) {
			found = DType(d)
		}
	}
	return found
}

// Promote is the result type of an operation on a and b; InvalidDType where no type holds the values of both, as for
// U64 and a signed integer.
func Promote(a, b DType) DType { return promotion[a][b] }

// EncodeFloat returns the slot bits of v in the compute type of d.
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
	case U64:
		if v >= 1<<63 {
			return uint64(v)
		}
		return uint64(int64(v)) // negative numbers wrap
	case Bool:
		if v != 0 {
			return 1
		}
	}
	return 0
}

// EncodeInt returns the slot bits of v in the compute type of d.
func EncodeInt(d DType, v int64) uint64 {
	switch d.ComputeType() {
	case F32:
		return uint64(math.Float32bits(float32(v)))
	case F64:
		return math.Float64bits(float64(v))
	case I32, U32:
		return uint64(uint32(Wrap(d, v)))
	case I64, U64:
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
	case U64:
		return float64(bits)
	case Bool:
		if bits != 0 {
			return 1
		}
	}
	return 0
}
