package program

import (
	"math/bits"
	"slices"
	"unsafe"
)

// Seal sets Hash from what identifies p.
func (p *Program) Seal() {
	h := uint64(len(p.Nodes))<<32 ^ uint64(len(p.Edges)) ^ p.Drawn<<48 ^ 0x9E3779B97F4A7C15
	h = mix(h, words(p.Nodes))
	h = mix(h, words(p.Edges))
	h = mix(h, words(p.Inputs))
	h = mix(h, words(p.Stores))
	h = mix(h, words(p.Results))
	p.Hash = mix(h, words(p.Draws))
}

// Same reports that p and q are one program, so that a plan of one runs the other. Both are sealed.
func (p *Program) Same(q *Program) bool {
	return p.Hash == q.Hash && p.Drawn == q.Drawn && equal(p.Nodes, q.Nodes) && equal(p.Edges, q.Edges) &&
		equal(p.Inputs, q.Inputs) && equal(p.Stores, q.Stores) && equal(p.Results, q.Results) &&
		equal(p.Draws, q.Draws) && slices.Equal(p.History, q.History) &&
		slices.Equal(p.Severed, q.Severed) && slices.Equal(p.Flat, q.Flat)
}

// record is a fixed number of 32-bit words without padding; all of them count.
type record interface {
	Node | Edge | Input | Store | Result | Draw
}

// words returns the memory of a list of records.
func words[T record](list []T) []uint32 {
	var t T
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(t)/4))
}

func equal[T record](a, b []T) bool { return string(raw(a)) == string(raw(b)) }

func raw[T record](list []T) []byte {
	var t T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(list))), len(list)*int(unsafe.Sizeof(t)))
}

// mix multiplies and folds four words at a time into h, in the manner of wyhash. Two products are computed at once.
func mix(h uint64, k []uint32) uint64 {
	h ^= uint64(len(k)) * 0x8EBC6AF09C88C6E3
	g := h ^ 0x589965CC75374CC3
	for len(k) >= 4 {
		h1, l1 := bits.Mul64(h^(uint64(k[0])|uint64(k[1])<<32), 0xA0761D6478BD642F)
		h2, l2 := bits.Mul64(g^(uint64(k[2])|uint64(k[3])<<32), 0xE7037ED1A0B428DB)
		h, g = h1^l1, h2^l2
		k = k[4:]
	}
	for _, w := range k {
		hi, lo := bits.Mul64(h^uint64(w), 0xE7037ED1A0B428DB)
		h = hi ^ lo
	}
	hi, lo := bits.Mul64(h^0x1D8E4E27C47D124F, g^0xEB44ACCAB455D165)
	return hi ^ lo
}
