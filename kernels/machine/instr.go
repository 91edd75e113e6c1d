package machine

// vec is the number of a vector: of the instruction that makes it.
type vec int32

// kind is a form of instructions on whole vectors.
type kind uint8

const (
	kLoad      kind = iota // dst = a block of slot; imm: the part of a value of eight bytes
	kStore                 // a block of slot = a
	kScalar                // dst = the first element of slot, in all lanes; runs once
	kConst                 // dst = imm in all lanes; runs once
	kBinary                // dst = enc(a, b)
	kUnary                 // dst = enc(a)
	kNarrow                // dst = enc(a), an instruction whose result is in ModRM.rm
	kUnaryImm              // dst = enc(a, imm)
	kBinaryImm             // dst = enc(a, b, imm)
	kShift                 // dst = a shifted by imm; enc.op and ext say how
	kFma                   // dst = a * b + c
	kSelect                // dst = a ? b : c, bit by bit in AVX-512, lane by lane in AVX2
	kCompare               // dst = lanes of ones where a and b compare as imm says; AVX-512 only
	// Of loops; see iterate.go.
	kCarry   // dst = a carry, which begins as a block of slot
	kAdvance // the carry whose number slot is becomes a
	kCopy    // dst = a
	kCall    // dst = the function at slot of the table, of a and b
)

// instr is an instruction on vectors, in SSA form: the number of its result is its place in the list of all.
type instr struct {
	kind    kind
	store   storage // of a load, a store or a scalar
	ext     byte    // ModRM.reg of a shift
	enc     encoding
	a, b, c vec // -1 for none
	slot    int32
	imm     uint64
	// Of loads and stores in loops: bytes behind the address; whether one element is in all lanes; whether a load runs
	// before the iterations.
	disp          int32
	spread, early bool
}

// storage is how elements lie in memory.
type storage uint8

const (
	sBool storage = iota
	sByte         // unsigned
	sSigned
	sShort
	sUnsigned // of two bytes
	sHalf
	sBrain
	sWord // four bytes
	sLong // eight bytes; a block is two vectors
)

// scale is the log2 of an element's bytes.
func (s storage) scale() int {
	switch s {
	case sBool, sByte, sSigned:
		return 0
	case sShort, sUnsigned, sHalf, sBrain:
		return 1
	case sWord:
		return 2
	}
	return 3
}

// Encodings, by the names of the instruction sets' manuals.
var (
	eMov       = encoding{ppNone, map0F, 0x10, false}
	eMovStore  = encoding{ppNone, map0F, 0x11, false}
	eMovReg    = encoding{ppNone, map0F, 0x28, false} // movaps
	eAnd       = encoding{pp66, map0F, 0xDB, false}
	eAndNot    = encoding{pp66, map0F, 0xDF, false}
	eOr        = encoding{pp66, map0F, 0xEB, false}
	eXor       = encoding{pp66, map0F, 0xEF, false}
	eAddI32    = encoding{pp66, map0F, 0xFE, false}
	eSubI32    = encoding{pp66, map0F, 0xFA, false}
	eAddI64    = encoding{pp66, map0F, 0xD4, true}
	eSubI64    = encoding{pp66, map0F, 0xFB, true}
	eMulI32    = encoding{pp66, map38, 0x40, false}
	eMulI64    = encoding{pp66, map38, 0x40, true}
	eShiftD    = encoding{pp66, map0F, 0x72, false}
	eBlendV    = encoding{pp66, map3A, 0x4A, false}
	eTernary   = encoding{pp66, map3A, 0x25, false}
	eMaskD     = encoding{ppF3, map38, 0x38, false} // vpmovm2d
	eExtract   = encoding{pp66, map3A, 0x19, false} // vextractf128
	eExtract64 = encoding{pp66, map3A, 0x1B, true}  // vextractf64x4
	eInsert    = encoding{pp66, map3A, 0x18, false}
	eInsert64  = encoding{pp66, map3A, 0x1A, true}
	eShuffle   = encoding{ppNone, map0F, 0xC6, false}
	ePermQ     = encoding{pp66, map3A, 0x00, true}
	eWidenI32  = encoding{pp66, map38, 0x25, false} // vpmovsxdq
	eWidenU32  = encoding{pp66, map38, 0x35, false} // vpmovzxdq
	eTruncQ    = encoding{ppF3, map38, 0x35, false} // vpmovqd
	eTruncDB   = encoding{ppF3, map38, 0x31, false} // vpmovdb
	eTruncDW   = encoding{ppF3, map38, 0x33, false} // vpmovdw
	eLoadU8    = encoding{pp66, map38, 0x31, false}
	eLoadI8    = encoding{pp66, map38, 0x21, false}
	eLoadU16   = encoding{pp66, map38, 0x33, false}
	eLoadI16   = encoding{pp66, map38, 0x23, false}
	eFromHalf  = encoding{pp66, map38, 0x13, false}
	eToHalf    = encoding{pp66, map3A, 0x1D, false}
	eSpreadD   = encoding{pp66, map38, 0x58, false} // vpbroadcastd
	eSpreadQ   = encoding{pp66, map38, 0x59, false} // vpbroadcastq; W1 in EVEX
	eMovD      = encoding{pp66, map0F, 0x6E, false}
	ePackDW    = encoding{pp66, map38, 0x2B, false} // vpackusdw
	ePackWB    = encoding{pp66, map0F, 0x67, false} // vpackuswb
)
