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
