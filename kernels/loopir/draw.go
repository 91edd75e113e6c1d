package loopir

import "math/bits"

// DrawPart is the part of the stream that an [OpDraw] gives. Elements 2i and 2i+1 are a pair.
type DrawPart uint64

// The parts.
const (
	DrawWord   DrawPart = iota // the element's own word
	DrawFirst                  // the word of the first element of its pair
	DrawSecond                 // the word of the second element of its pair
	DrawOdd                    // 1 for the second element of a pair, 0 for the first
	NumDrawParts
)

// Draw is the part of element e of the stream with a Philox offset and a seed.
func Draw(part DrawPart, e, drawOffset, seed uint64) uint32 {
	n := e % 4
	switch part {
	case DrawFirst:
		n &^= 1
	case DrawSecond:
		n |= 1
	case DrawOdd:
		return uint32(e % 2)
	}
	block := e / 4
	return Philox([4]uint32{uint32(block), uint32(block >> 32), uint32(drawOffset), uint32(drawOffset >> 32)},
		[2]uint32{uint32(seed), uint32(seed >> 32)})[n]
}

// Philox is the Philox4x32-10 block function (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
func Philox(ctr [4]uint32, key [2]uint32) [4]uint32 {
	for range 10 {
		hi0, lo0 := bits.Mul32(PhiloxM0, ctr[0])
		hi1, lo1 := bits.Mul32(PhiloxM1, ctr[2])
		ctr = [4]uint32{hi1 ^ ctr[1] ^ key[0], lo1, hi0 ^ ctr[3] ^ key[1], lo0}
		key[0] += PhiloxW0
		key[1] += PhiloxW1
	}
	return ctr
}

// The multipliers and Weyl increments of Philox4x32.
const (
	PhiloxM0 = 0xD2511F53
	PhiloxM1 = 0xCD9E8D57
	PhiloxW0 = 0x9E3779B9
	PhiloxW1 = 0xBB67AE85
)
