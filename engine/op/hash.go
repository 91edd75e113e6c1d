package op

import "hash/fnv"

// Hash identifies the registry of operators: FNV-1a of all signatures in the order of their numbers. What holds
// operator numbers carries it, so that a library and a binding built from different registries are told apart.
func Hash() uint32 {
	h := fnv.New32a()
	for i, d := range Defs() {
		if i > 0 {
			h.Write([]byte{'\n'})
		}
		h.Write([]byte(d.Sig))
	}
	return h.Sum32()
}

// HashWords hashes the key of a call.
func HashWords(words []uint64) uint64 {
	h := uint64(0x9E3779B97F4A7C15)
	for _, w := range words {
		h = HashWord(h, w)
	}
	return h
}

// HashWord adds a word to a hash of HashWords.
func HashWord(h, w uint64) uint64 {
	h = (h ^ w) * 0xFF51AFD7ED558CCD
	return h ^ h>>32
}
