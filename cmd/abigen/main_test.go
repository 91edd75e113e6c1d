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

func TestLongLinesAreBroken(t *testing.T) {
	long := "int32_t f(" + strings.Repeat("uint64_t a, ", 12) + "int32_t b);"
	text := wrap(long, ",", "    ")
	assert.Equal(t, long+"\n", strings.ReplaceAll(text, ",\n    ", ", "))
	assert.Equal(t, "/* "+strings.Repeat("x", 100)+"\n * "+strings.Repeat("y", 30)+" */\n",
		wrap("/* "+strings.Repeat("x", 100)+" "+strings.Repeat("y", 30)+" */", "", " * "))
	assert.Equal(t, "int32_t f(void);\n", wrap("int32_t f(void);", ",", "    "))
	word := strings.Repeat("x", maxColumns+1)
	assert.Equal(t, word+"\n", wrap(word, ",", "    "))
	for _, line := range strings.Split(text+header()+wrappers(), "\n") {
		assert.LessOrEqual(t, len(line), maxColumns, line)
	}
}

func TestHeaderIsComplete(t *testing.T) {
	h := header()
	for c := ir.OK; c < ir.NumCodes; c++ {
		assert.NotEmpty(t, codeNames[c], "code %d has no name", c)
	}
	h = strings.ReplaceAll(h, "\n    ", " ")
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
		_, body, _ := strings.Cut(w, wrap(e.prototype()+" {", ",", "    "))
		assert.True(t, strings.HasPrefix(body, "    if (tl_forked) {"), e.name)
	}
}
