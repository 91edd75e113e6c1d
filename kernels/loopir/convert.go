package loopir

import (
	"encoding/binary"
	"math"

	"github.com/torchlette/torchlette/ir"
)

// LoadBits reads element i of canonical host bytes as slot bits of t's compute type.
func LoadBits(t ir.DType, buf []byte, i int64) uint64 {
	switch t {
	case ir.Bool:
		return boolBits(buf[i] != 0)
	case ir.F16:
		return uint64(math.Float32bits(HalfToFloat(binary.LittleEndian.Uint16(buf[2*i:]))))
	case ir.BF16:
		return uint64(binary.LittleEndian.Uint16(buf[2*i:])) << 16
	case ir.I64, ir.U64, ir.F64:
		return binary.LittleEndian.Uint64(buf[8*i:])
	case ir.U8, ir.I8:
		return ir.EncodeInt(t, int64(buf[i]))
	case ir.I16, ir.U16:
		return ir.EncodeInt(t, int64(binary.LittleEndian.Uint16(buf[2*i:])))
	}
	return uint64(binary.LittleEndian.Uint32(buf[4*i:]))
}

// StoreBits writes slot bits of t's compute type as element i of canonical host bytes.
func StoreBits(t ir.DType, buf []byte, i int64, v uint64) {
	switch t {
	case ir.Bool:
		buf[i] = byte(v & 1)
	case ir.F16:
		binary.LittleEndian.PutUint16(buf[2*i:], FloatToHalf(f32(v)))
	case ir.BF16:
		binary.LittleEndian.PutUint16(buf[2*i:], FloatToBrain(f32(v)))
	case ir.I64, ir.U64, ir.F64:
		binary.LittleEndian.PutUint64(buf[8*i:], v)
	case ir.U8, ir.I8:
		buf[i] = byte(v)
	case ir.I16, ir.U16:
		binary.LittleEndian.PutUint16(buf[2*i:], uint16(v))
	default:
		binary.LittleEndian.PutUint32(buf[4*i:], uint32(v))
	}
}

// HalfToFloat widens IEEE binary16 exactly.
func HalfToFloat(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10)&31, uint32(h&0x3ff)
	switch exp {
	case 0:
		v := float32(frac) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// FloatToHalf narrows to IEEE binary16, rounding half to even.
func FloatToHalf(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x477ff000: // 65520, the midpoint above the largest half
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: a multiple of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(b))*(1<<24)))
	}
	b += 0xfff + b>>13&1
	return sign | uint16(b>>13-112<<10)
}

// FloatToBrain narrows to bfloat16, rounding half to even.
func FloatToBrain(f float32) uint16 {
	b := math.Float32bits(f)
	if isNaN32(b) {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}
