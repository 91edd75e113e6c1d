package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine"
	"github.com/torchlette/torchlette/engine/op"
)

var capi = filepath.Join("..", "..", "capi")

func TestFilesOfTheABIAreCurrent(t *testing.T) {
	for name, want := range map[string]string{"torchlette.h": header(), "exports_gen.c": wrappers()} {
		got, err := os.ReadFile(filepath.Join(capi, name))
		require.NoError(t, err)
		assert.True(t, string(got) == want, "%s is stale: run make generate", name)
	}
}

// Programs in C and C++ include the header alone, with their warnings on.
func TestHeaderCompilesAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "torchlette.h")
	require.NoError(t, os.WriteFile(path, []byte(header()), 0o644))
	for _, language := range [][]string{{"cc", "-xc", "-std=c99"}, {"c++", "-xc++", "-std=c++11"}} {
		if _, err := exec.LookPath(language[0]); err != nil {
			t.Logf("no %s on this machine", language[0])
			continue
		}
		cmd := exec.Command(language[0], append(language[1:], "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-")...)
		// Included twice: the guard holds.
		cmd.Stdin = strings.NewReader(strings.Repeat(`#include "`+path+"\"\n", 2) +
			"int f(tl_call *c, tl_out *o) { return c->op == TL_OP_COUNT && o->shape[TL_MAX_RANK - 1] == TL_PENDING; }\n" +
			"extern int (*const p)(tl_call *, tl_out *); int (*const p)(tl_call *, tl_out *) = f;\n")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", language, out)
	}
}

func TestNumbersOfTheHeaderAreTheEngines(t *testing.T) {
	assert.Equal(t, engine.MaxRank, maxRank)
	assert.Equal(t, engine.MaxDeferredTensors, queuedTensors)
}

// The Go side of each export carries the name that its wrapper calls, and has no wrapper missing.
func TestEveryExportHasItsGoSide(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(capi, "*.go"))
	require.NoError(t, err)
	inGo := map[string]bool{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range regexp.MustCompile(`(?m)^//export tlgo_(\w+)$`).FindAllStringSubmatch(string(text), -1) {
			inGo["tl_"+m[1]] = true
		}
	}
	for _, e := range exports {
		assert.Equal(t, !e.inC, inGo[e.name], "%s", e.name)
		delete(inGo, e.name)
	}
	assert.Empty(t, inGo, "Go functions that no export calls")
}

// Two operators, or two exports, of one identifier would shadow each other in C.
func TestIdentifiersAreDistinct(t *testing.T) {
	seen := map[string]string{"COUNT": "the count"}
	for _, d := range op.Defs() {
		id := identifier(d.Parsed.Full)
		assert.Empty(t, seen[id], "%s and %s are both TL_OP_%s", d.Parsed.Full, seen[id], id)
		assert.Regexp(t, `^\w+$`, id)
		seen[id] = d.Parsed.Full
	}
	names := map[string]bool{}
	for _, e := range exports {
		assert.False(t, names[e.name], e.name)
		assert.Regexp(t, `^tl_[a-z_]+$`, e.name)
		names[e.name] = true
	}
}

// A wrapper passes its parameters on as cgo's prototypes want them, and refuses by its own result type.
func TestTextOfWrappers(t *testing.T) {
	defer func(all []export) { exports = all }(exports)
	exports = []export{
		{name: "tl_make", ret: "int32_t", params: "const uint64_t *handles, int32_t n", doc: "Makes."},
		{name: "tl_count", ret: "uint32_t", params: "void", doc: "Counts."},
		{name: "tl_plain", ret: "int32_t", params: "void", doc: "In C.", inC: true},
	}
	_, body, ok := strings.Cut(wrappers(), "#include \"shim.h\"\n")
	require.True(t, ok)
	assert.Equal(t, `
int32_t tl_make(const uint64_t *handles, int32_t n) {
    if (tl_forked) {
        return tl_refuse_fork();
    }
    return tlgo_make((uint64_t *)handles, n);
}

uint32_t tl_count(void) {
    if (tl_forked) {
        return 0;
    }
    return tlgo_count();
}
`, body)
	assert.Contains(t, header(), "\n/* Makes. */\nTL_API int32_t tl_make(const uint64_t *handles, int32_t n);\n")
}
