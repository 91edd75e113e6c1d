package op

import "hash/fnv"

// Hash identifies the table of operators: FNV-1a of all signatures in order of
// their numbers. Artifacts that hold operator numbers carry it, so that a
// library and a binding built from different tables are told apart.
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
