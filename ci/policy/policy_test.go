package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "github.com/torchlette/torchlette"

// order is the direction of imports. A line "a < b" lets b import a and all that a may import; names are paths below
// the module. Test files may import more, see testOnly.
const order = `
ir < kernels/loopir
kernels/loopir < kernels/launch
kernels/loopir < kernels/gpuir
kernels/loopir < kernels/machine
kernels/launch < kernels/device
kernels/launch < kernels/gpucode
kernels/gpuir < kernels/gpucode
kernels/gpuir < kernels/wgsl
kernels/launch < kernels/kerneltest
kernels/kerneltest < kernels/device/devicetest
kernels/device < kernels/device/devicetest
kernels/device < kernels/reference
kernels/device < kernels/cpu
kernels/cpu/vector < kernels/cpu
kernels/machine < kernels/cpu

kernels/device < gpu
kernels/gpucode < gpu
kernels/wgsl < gpu
gpu < gpu/wgpu
gpu < gpu/fake

ir < engine/op
engine/op < engine/op/prim
engine/op/prim < engine/op/composite
engine/op/prim < engine/op/samples
engine/op < engine/lower
kernels/device < engine/lower
engine/lower < engine/op/optest

engine/op/prim < engine/autograd
engine/op/prim < engine/program
engine/autograd < engine/lazy
engine/program < engine/lazy
engine/lazy < engine/dispatch
engine/program < engine/compile
engine/program < engine/simplify
kernels/loopir < engine/simplify
engine/lower < engine/compile
engine/compile < engine/runtime
engine/lazy < engine
engine/dispatch < engine
engine/runtime < engine
engine/simplify < engine
engine/op/composite < engine
engine/op < engine/saved
engine/saved < engine

engine < capi
kernels/cpu < capi
kernels/reference < capi
gpu/wgpu < capi
gpu/fake < capi

engine/op/composite < cmd/opgen
engine/op/samples < cmd/opgen
engine/op/composite < cmd/abigen
gpu/wgpu < cmd/internal/trial
cmd/internal/trial < cmd/gemmtiles
cmd/internal/trial < cmd/attentiontiles
`

// cgo lists the packages that may import "C".
var cgo = map[string]bool{"capi": true, "gpu/wgpu": true, "kernels/cpu": true, "kernels/cpu/vector": true}

// modules lists the third-party modules and the packages that may import them. testify is for test files and for
// packages that only tests import.
var modules = map[string][]string{
	"github.com/oliverbestmann/webgpu": {"gpu/wgpu"},
	"github.com/cogentcore/webgpu":     {"gpu/wgpu"},
	"github.com/stretchr/testify":      {"kernels/device/devicetest", "engine/op/optest", "kernels/kerneltest"},
}

// testOnly names packages that only tests may import.
var testOnly = map[string]bool{
	"kernels/device/devicetest": true, "engine/op/optest": true, "kernels/kerneltest": true,
}

// noNames are package names that say nothing.
var noNames = regexp.MustCompile(`^(utils?|helpers?|common|misc|shared|base)$`)

const (
	maxFileLines = 600
	maxFuncLines = 80
)

type file struct {
	path      string // slash-separated, below the root
	dir       string
	test      bool
	generated bool
	ast       *ast.File
	lines     int
}

var fset = token.NewFileSet()

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	require.NoError(t, err)
	return dir
}

// sources parses every Go file of the module.
func sources(t *testing.T) []file {
	t.Helper()
	top := root(t)
	var out []file
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); p != top && (strings.HasPrefix(n, ".") || n == "testdata" || n == "build" || n == "dist") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		a, err := parser.ParseFile(fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(top, p)
		rel = filepath.ToSlash(rel)
		out = append(out, file{
			path: rel, dir: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"),
			generated: ast.IsGenerated(a), ast: a, lines: strings.Count(string(text), "\n"),
		})
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, len(out), 20, "the walk did not find the sources")
	return out
}

// below returns, for each package, all that it may import.
func below(t *testing.T) map[string]map[string]bool {
	t.Helper()
	direct := map[string][]string{}
	for _, line := range strings.Split(order, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		a, b, ok := strings.Cut(line, "<")
		require.True(t, ok, "bad line %q", line)
		direct[strings.TrimSpace(b)] = append(direct[strings.TrimSpace(b)], strings.TrimSpace(a))
	}
	out := map[string]map[string]bool{}
	var visit func(p string, trail []string) map[string]bool
	visit = func(p string, trail []string) map[string]bool {
		require.NotContains(t, trail, p, "the order has a cycle")
		if out[p] != nil {
			return out[p]
		}
		set := map[string]bool{}
		for _, q := range direct[p] {
			set[q] = true
			for r := range visit(q, append(trail, p)) {
				set[r] = true
			}
		}
		out[p] = set
		return set
	}
	for p := range direct {
		visit(p, nil)
	}
	return out
}

// imports returns the paths that f imports.
func (f *file) imports() []string {
	var out []string
	for _, i := range f.ast.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		out = append(out, p)
	}
	return out
}

func isStd(p string) bool { return !strings.Contains(strings.SplitN(p, "/", 2)[0], ".") }

func TestImportsGoOneWay(t *testing.T) {
	allowed := below(t)
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		for _, p := range f.imports() {
			own, ok := strings.CutPrefix(p, module+"/")
			if !ok {
				continue
			}
			assert.True(t, allowed[f.dir][own], "%s imports %s: no line of the order allows it", f.path, own)
			assert.True(t, !testOnly[own] || testOnly[f.dir], "%s imports %s, which is for tests", f.path, own)
		}
	}
}

// A plan is built from a program and a device's capabilities, so that tests, files and captured functions need no
// session.
func TestPlanningKnowsNoSession(t *testing.T) {
	assert.False(t, below(t)["engine/compile"]["engine/lazy"], "the order lets engine/compile import engine/lazy")
	for _, f := range sources(t) {
		if f.dir == "engine/compile" {
			assert.NotContains(t, f.imports(), module+"/engine/lazy", "%s", f.path)
		}
	}
}

// The top-level folders are layers: of any two, at most one imports the other, directly or through a third.
func TestTopLevelFoldersAreLayers(t *testing.T) {
	direct := map[string]map[string]bool{}
	for _, f := range sources(t) {
		from, _, _ := strings.Cut(f.dir, "/")
		for _, p := range f.imports() {
			own, ok := strings.CutPrefix(p, module+"/")
			if to, _, _ := strings.Cut(own, "/"); ok && !f.test && to != from {
				if direct[from] == nil {
					direct[from] = map[string]bool{}
				}
				direct[from][to] = true
			}
		}
	}
	var visit func(at string, trail []string)
	visit = func(at string, trail []string) {
		require.NotContains(t, trail, at, "folders import each other: %s", strings.Join(append(trail, at), " -> "))
		for next := range direct[at] {
			visit(next, append(slices.Clone(trail), at))
		}
	}
	require.NotEmpty(t, direct["engine"])
	for from := range direct {
		visit(from, nil)
	}
}

func TestCgoStandsInThreePlaces(t *testing.T) {
	for _, f := range sources(t) {
		for _, p := range f.imports() {
			if p == "C" {
				assert.True(t, cgo[f.dir], "%s uses cgo", f.path)
			}
		}
	}
}

func TestModules(t *testing.T) {
	for _, f := range sources(t) {
		for _, p := range f.imports() {
			if p == "C" || isStd(p) || strings.HasPrefix(p, module) {
				continue
			}
			places, known := []string(nil), false
			for m, where := range modules {
				if p == m || strings.HasPrefix(p, m+"/") {
					places, known = where, true
				}
			}
			if assert.True(t, known, "%s imports the unlisted module %s", f.path, p) && !f.test {
				assert.Contains(t, places, f.dir, "%s imports %s", f.path, p)
			}
		}
	}
	text, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	require.NoError(t, err)
	for _, line := range strings.Split(string(text), "\n") {
		name, version, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "require ")), " ")
		if ok && strings.HasPrefix(version, "v") && !strings.HasSuffix(version, "// indirect") {
			assert.Contains(t, modules, name, "go.mod requires %s", name)
		}
	}
}

func TestEveryPackageIsDocumented(t *testing.T) {
	documented, command := map[string]bool{}, map[string]bool{}
	all := map[string]bool{}
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		all[f.dir] = true
		if f.ast.Name.Name == "main" {
			command[f.dir] = true
		}
		if f.ast.Doc != nil && (path.Base(f.path) == "doc.go" || (command[f.dir] && path.Base(f.path) == "main.go")) {
			documented[f.dir] = true
			assert.Greater(t, len(f.ast.Doc.Text()), 60, "%s says too little", f.path)
		}
		assert.False(t, noNames.MatchString(path.Base(f.dir)), "%s: the package name says nothing", f.dir)
	}
	var dirs []string
	for d := range all {
		dirs = append(dirs, d)
	}
	sort.Strings(dirs)
	for _, d := range dirs {
		assert.True(t, documented[d], "%s has no doc.go (a command: no package comment in main.go)", d)
	}
}

func TestLengths(t *testing.T) {
	for _, f := range sources(t) {
		if f.generated {
			continue
		}
		assert.LessOrEqual(t, f.lines, maxFileLines, "%s is long", f.path)
		if f.test {
			continue
		}
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			n := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1
			assert.LessOrEqual(t, n, maxFuncLines, "%s: func %s is long", f.path, fn.Name.Name)
		}
	}
}

func TestLongSourcesInOtherLanguages(t *testing.T) {
	top := root(t)
	for _, dir := range []string{"python", "kernels", "capi", "gpu", "benchmarks", "demo", "examples"} {
		err := filepath.WalkDir(filepath.Join(top, dir), func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			switch filepath.Ext(p) {
			case ".py", ".c", ".h":
			default:
				return nil
			}
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			head, _, _ := strings.Cut(string(text), "\n")
			if !strings.Contains(head, "DO NOT EDIT") {
				assert.LessOrEqual(t, strings.Count(string(text), "\n"), maxFileLines, "%s is long", strings.TrimPrefix(p, top))
			}
			return nil
		})
		require.NoError(t, err)
	}
}
