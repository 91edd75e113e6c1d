package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

func TestArguments(t *testing.T) {
	for _, c := range []struct{ params, want string }{
		{"void", ""},
		{"uint64_t handle", "handle"},
		{"const char *name, uint16_t *op", "(char *)name, op"},
		{"const uint64_t *handles, int32_t n", "(uint64_t *)handles, n"},
		{"char **json", "json"},
	} {
		assert.Equal(t, c.want, arguments(c.params))
	}
}

func TestHeaderIsComplete(t *testing.T) {
	h := header()
	for c := ir.OK; c < ir.NumCodes; c++ {
		assert.NotEmpty(t, codeNames[c], "code %d has no name", c)
	}
	for _, e := range exports {
		assert.Equal(t, 1, strings.Count(h, " "+e.name+"(")+strings.Count(h, "*"+e.name+"("), e.name)
		assert.NotEmpty(t, e.doc)
	}
	for _, d := range op.Defs() {
		assert.Contains(t, h, "TL_OP_"+identifier(d.Parsed.Full)+" = ")
	}
}

func TestEveryExportThatEntersGoChecksForAFork(t *testing.T) {
	w := wrappers()
	for _, e := range exports {
		if e.inC {
			assert.NotContains(t, w, e.name+"(")
			continue
		}
		_, body, _ := strings.Cut(w, " "+e.name+"("+e.params+") {\n")
		assert.True(t, strings.HasPrefix(body, "    if (tl_forked) {"), e.name)
	}
}
