package main

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

// onThread pins a test to one OS thread, which stores the last error.
func onThread(t *testing.T) {
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
}

// guarded calls f like the body of an export.
func guarded(id op.OpID, f func()) (code ir.Code) {
	defer func() {
		if r := recover(); r != nil {
			code = caught(r, "export", id)
		}
	}()
	f()
	return ir.OK
}

func TestGuardTurnsPanicsIntoStatuses(t *testing.T) {
	var none []int
	for _, c := range []struct {
		name  string
		id    op.OpID
		panic func()
		code  ir.Code
		text  string
	}{
		{"no panic", 0, func() {}, ir.OK, ""},
		{"engine error", 0, func() { panic(ir.Errorf(ir.ErrIndex, "add: dim is wrong")) }, ir.ErrIndex, "add: dim is wrong"},
		{"string", 0, func() { panic("BUG: lost") }, ir.ErrInternal, "export: internal error: BUG: lost"},
		{"of an operator", op.DefNamed("add").ID, func() { panic("BUG: lost") }, ir.ErrInternal,
			"add: internal error: BUG: lost"},
		{"runtime error", 0, func() { none[0]++ }, ir.ErrInternal, "index out of range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			onThread(t) // each subtest runs in its own goroutine
			assert.Equal(t, c.code, guarded(c.id, c.panic))
			if c.code == ir.OK {
				return
			}
			code, msg := lastError()
			assert.Equal(t, c.code, code)
			assert.Contains(t, msg, c.text)
		})
	}
}

func TestInternalErrorsNameTheLine(t *testing.T) {
	onThread(t)
	guarded(0, func() { panic("BUG: here") })
	_, msg := lastError()
	assert.Contains(t, msg, "guard_test.go:")
}

func TestLongMessagesAreCutBetweenCharacters(t *testing.T) {
	onThread(t)
	fail(ir.ErrValue, 0, "x"+strings.Repeat("é", 4000))
	_, msg := lastError()
	require.Less(t, len(msg), 4096)
	assert.True(t, strings.HasSuffix(msg, "é"))
	assert.Equal(t, "x", strings.TrimRight(msg, "é"))
}

func TestWriteStringIsCutAndTerminated(t *testing.T) {
	for _, c := range []struct {
		size int
		text string
		want []byte
	}{
		{0, "a", []byte{}},
		{1, "a", []byte{0}},
		{3, "abc", []byte{'a', 'b', 0}},
		{4, "abc", []byte{'a', 'b', 'c', 0}},
	} {
		dst := make([]byte, c.size)
		writeString(dst, c.text)
		assert.Equal(t, c.want, dst)
	}
}

func TestViewNeverLooksAtNullPointers(t *testing.T) {
	assert.Nil(t, view[uint64](nil, int32(0)))
	assert.Nil(t, view[uint64](nil, int32(-1)))
}
