package engine

import (
	"strconv"
	"sync"
)

// sourceLocs interns the lines of the user's program. It has a lock of its own, because lines are read without the
// engine's lock.
type sourceLocs struct {
	mu    sync.Mutex
	byKey map[string]uint32
	list  []string
}

// intern returns the number of a line.
func (t *sourceLocs) intern(line string) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, ok := t.byKey[line]; ok {
		return id
	}
	if t.byKey == nil {
		t.byKey, t.list = map[string]uint32{}, []string{""}
	}
	id := uint32(len(t.list))
	t.list = append(t.list, line)
	t.byKey[line] = id
	return id
}

// line returns the line of a number, "" for none.
func (t *sourceLocs) line(id uint32) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if int(id) < len(t.list) {
		return t.list[id]
	}
	return ""
}

// SourceLoc interns a source location; 0 means unknown.
func (e *Engine) SourceLoc(file, fn string, line int) uint32 {
	return e.recorder.sourceLocs.intern(file + ":" + strconv.Itoa(line) + " in " + fn)
}

// SourceLocString returns "file:line in function".
func (e *Engine) SourceLocString(id uint32) string {
	return e.recorder.sourceLocs.line(e.profile.sourceLoc(id))
}
