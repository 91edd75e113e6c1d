package engine

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/saved"
	"github.com/torchlette/torchlette/ir"
)

// scaling is a program that multiplies 4096 numbers by a constant.
const scaling = `{"format": "torchlette program", "version": 1, "dims": [], "numbers": [],
"constants": [{"name": "w", "kind": "parameter", "dtype": "float32", "shape": [4096], "requires_grad": false}],
"functions": {"forward": {
  "inputs": [{"name": "x", "dtype": "float32", "shape": [4096]}],
  "formulas": [], "supplied": [], "guards": [], "writes": [],
  "steps": [{"op": "mul", "args": {"self": "%0", "other": "%1"}, "out": [{"dtype": "float32", "shape": [4096]}]}],
  "outputs": [{"name": "y", "value": "%2"}], "state": []}}}`

// scalingFile writes the program with the constant 0, 1, 2, ...
func scalingFile(t *testing.T) string {
	t.Helper()
	p, err := saved.Parse([]byte(scaling))
	require.Nil(t, err, "%v", err)
	path := filepath.Join(t.TempDir(), "scaling")
	f, x := os.Create(path)
	require.NoError(t, x)
	err = saved.WriteFile(f, p, nil, func(int) ([]byte, *ir.Error) {
		w := make([]float32, 4096)
		for i := range w {
			w[i] = float32(i)
		}
		return unsafe.Slice((*byte)(unsafe.Pointer(&w[0])), 4*len(w)), nil
	})
	require.Nil(t, err)
	require.NoError(t, f.Close())
	return path
}

// The large constants of a session's file are its pages, as long as the session lives.
func TestConstantsOfASessionAreThePagesOfItsFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files are not mapped")
	}
	path := scalingFile(t)
	for _, off := range []bool{false, true} {
		r := newSessionRig(t, true)
		if off {
			r.e.planner.debug.Off = []string{"map_constants"}
		}
		id, err := r.e.OpenProgram(path)
		require.Nil(t, err)
		r.e.mapProgram(id)
		m := r.e.programs[id].pages
		require.Equal(t, off, m == nil)
		var out Out
		require.Nil(t, r.e.ProgramConstant(id, 0, &out))
		v, err := r.e.session.Resolve(out.Handle)
		require.Nil(t, err)
		at := uintptr(r.e.runtime.Mapped(r.e.graph.Node(v.Value).Store))
		r.e.ForgetCaptured(id)
		if !off {
			inside := at - uintptr(unsafe.Pointer(&m.data[0]))
			assert.Less(t, inside, uintptr(len(m.data)))
			r.inplace("mul", T(out.Handle), 2)
			assert.EqualValues(t, 2*4095, r.read(T(out.Handle))[4095])
			assert.NotNil(t, m.data)
			r.drop(T(out.Handle))
			assert.Nil(t, m.data, "nothing uses the pages")
		}

		id, err = r.e.OpenSession(path, SessionOptions{Threads: 1})
		require.Nil(t, err)
		s, err := r.e.SessionOf(id)
		require.Nil(t, err)
		x := make([]float32, 4096)
		x[0], x[7], x[4095] = 1, 2, 3
		y := runSession(t, s, value("x", x, 4096))
		assert.Equal(t, []float32{0, 14, 3 * 4095}, []float32{y[0], y[7], y[4095]}, "what was written stays in memory")
		require.Nil(t, r.e.CloseSession(id))
	}
}

// Constants that do not lie within the file, or not where their type is aligned, are not used in place.
func TestPagesHoldWhatIsAlignedAndLarge(t *testing.T) {
	m := &pages{data: unsafe.Slice((*byte)(unsafe.Pointer(&make([]uint64, leastMapped)[0])), 8*leastMapped)}
	for _, c := range []struct {
		at   saved.Extent
		want bool
	}{
		{saved.Extent{Offset: 8, Size: leastMapped}, true},
		{saved.Extent{Offset: 8, Size: leastMapped - 4}, false},
		{saved.Extent{Offset: 6, Size: leastMapped}, false},
		{saved.Extent{Offset: -8, Size: leastMapped}, false},
		{saved.Extent{Offset: 7*leastMapped + 4, Size: leastMapped}, false},
		{saved.Extent{Offset: 1 << 62, Size: 1 << 62}, false},
	} {
		assert.Equal(t, c.want, m.hold(c.at, ir.F32), "%v", c.at)
	}
}

// Every switch that the sources read can be set, and is on the page of variables.
func TestSwitchesOfSessionsAreKnown(t *testing.T) {
	page, x := os.ReadFile("../docs/environment.md")
	require.NoError(t, x)
	read := regexp.MustCompile(`(?:enabled\(|debug\.Off, )"(\w+)"`)
	found := map[string]bool{}
	files, x := filepath.Glob("*.go")
	require.NoError(t, x)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, x := os.ReadFile(name)
		require.NoError(t, x)
		for _, m := range read.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
			assert.Contains(t, string(page), "`"+m[1]+"`")
		}
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(found)), compile.SessionPasses)
}
