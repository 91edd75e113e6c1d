package ir

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPanicTextNamesTheLineThatPanicked(t *testing.T) {
	none, first := []int{}, 0
	var nowhere *Error
	for name, f := range map[string]func(){
		"a value":        func() { panic("told") },
		"an error":       func() { panic(errors.New("told")) },
		"the runtime's":  func() { _ = none[first] },
		"no address":     func() { nowhere.Msg = "told" },
		"in a deferral":  func() { defer func() { panic("told") }(); panic("first") },
		"below a helper": func() { func() { panic("told") }() },
	} {
		func() {
			defer func() {
				text := PanicText(recover(), false)
				assert.Regexp(t, `^internal error: .+ \(at .*panic_test\.go:\d+\)$`, text, name)
			}()
			f()
		}()
	}
}

func TestPanicTextHasTheStackInstead(t *testing.T) {
	defer func() {
		text := PanicText(recover(), true)
		assert.Contains(t, text, "internal error: told\n")
		assert.Contains(t, text, "TestPanicTextHasTheStackInstead")
		assert.NotContains(t, text, "(at ")
	}()
	panic("told")
}
