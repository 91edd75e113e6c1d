package ir

import (
	"encoding/binary"
	"sync"
)

// attrs interns attribute lists. Like the table of layouts, it grows only with the number of distinct lists.
var attrs = struct {
	mu    sync.Mutex
	byKey map[string]uint32
	list  snapshot[[]int64]
	key   []byte
}{byKey: map[string]uint32{}}

// InternAttr numbers a copy of a list of attributes; 0 is the empty list.
func InternAttr(a []int64) uint32 {
	if len(a) == 0 {
		return 0
	}
	attrs.mu.Lock()
	defer attrs.mu.Unlock()
	k := attrs.key[:0]
	for _, v := range a {
		k = binary.AppendVarint(k, v)
	}
	attrs.key = k
	if id, ok := attrs.byKey[string(k)]; ok {
		return id
	}
	id := attrs.list.next()
	c := append([]int64{}, a...)
	attrs.list.add(&c)
	attrs.byKey[string(k)] = id
	return id
}

// AttrOf returns the list numbered id.
func AttrOf(id uint32) []int64 {
	if id == 0 {
		return nil
	}
	return *attrs.list.at(id)
}
