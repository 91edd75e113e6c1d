package policy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The Python extension is made of subjects: subject x is x.h and x.c. Its headers are read as text; the patterns below
// know the one style in which they are written.
var (
	cComment    = regexp.MustCompile(`(?s)/\*.*?\*/`)
	cString     = regexp.MustCompile(`"(\\.|[^"\\\n])*"`)
	cInclude    = regexp.MustCompile(`(?m)^#include "(\w+)\.h"`)
	cDefine     = regexp.MustCompile(`(?m)^#define (\w+)`)
	cDirective  = regexp.MustCompile(`(?m)^#(.*\\\n)*.*$`)
	cEnum       = regexp.MustCompile(`enum( \w+)? \{([^}]*)\}`)
	cBody       = regexp.MustCompile(`\{[^{}\n]*\}|(?s:\{.*?\n\})`)
	cTypeName   = regexp.MustCompile(`(?m)^typedef struct[^;]*?(\w+);`)
	cFunction   = regexp.MustCompile(`(?m)^(static inline )?(?:[A-Za-z]\w* )+\**(\w+)\(`)
	cExtern     = regexp.MustCompile(`(?m)^extern [^;]*;`)
	cExternName = regexp.MustCompile(`(\w+)(?:\[\])?[,;]`)
	cWord       = regexp.MustCompile(`(->|\.)?\b[A-Za-z_]\w*`)
)

// cFile is one source or header of the extension.
type cFile struct {
	name, subject string
	header        bool
	includes      map[string]bool // subjects
	words         map[string]bool // names that its code has, without names of members
	declares      map[string]bool // names that others may use
	functions     map[string]bool // among these, those whose definition is elsewhere
}

func readCFile(t *testing.T, path string) cFile {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	subject, extension, _ := strings.Cut(filepath.Base(path), ".")
	f := cFile{name: filepath.Base(path), subject: subject, header: extension == "h", includes: map[string]bool{},
		words: map[string]bool{}, declares: map[string]bool{}, functions: map[string]bool{}}
	for _, m := range cInclude.FindAllSubmatch(text, -1) {
		f.includes[string(m[1])] = true
	}
	code := cComment.ReplaceAllString(string(text), "")
	code = cString.ReplaceAllString(strings.ReplaceAll(code, "#include", "#"), `""`)
	for _, w := range cWord.FindAllString(code, -1) {
		f.words[w] = true
	}
	if f.header {
		f.readDeclarations(code)
	}
	return f
}

func (f *cFile) readDeclarations(code string) {
	for _, m := range cDefine.FindAllStringSubmatch(code, -1) {
		if !strings.HasPrefix(m[1], "TORCHLETTE_") {
			f.declares[m[1]] = true
		}
	}
	code = cDirective.ReplaceAllString(code, "")
	for _, m := range cEnum.FindAllStringSubmatch(code, -1) {
		for _, constant := range strings.Split(m[2], ",") {
			name, _, _ := strings.Cut(strings.TrimSpace(constant), " ")
			f.declares[name] = true
		}
	}
	code = cBody.ReplaceAllString(cEnum.ReplaceAllString(code, ""), "")
	for _, m := range cTypeName.FindAllStringSubmatch(code, -1) {
		f.declares[m[1]] = true
	}
	for _, m := range cFunction.FindAllStringSubmatch(code, -1) {
		f.declares[m[2]] = true
		f.functions[m[2]] = m[1] == ""
	}
	for _, declaration := range cExtern.FindAllString(code, -1) {
		for _, m := range cExternName.FindAllStringSubmatch(declaration, -1) {
			f.declares[m[1]] = true
		}
	}
	delete(f.declares, "")
}

// extension gives the files of python/csrc, generated ones left out.
func extension(t *testing.T) []cFile {
	t.Helper()
	var out []cFile
	for _, pattern := range []string{"*.h", "*.c"} {
		paths, err := filepath.Glob(filepath.Join(root(t), "python", "csrc", pattern))
		require.NoError(t, err)
		for _, p := range paths {
			out = append(out, readCFile(t, p))
		}
	}
	require.Greater(t, len(out), 20, "the extension's files were not found")
	return out
}

func TestSubjectsOfTheExtensionFormNoCircle(t *testing.T) {
	uses, known := map[string]map[string]bool{}, map[string]bool{}
	for _, f := range extension(t) {
		known[f.subject] = true
		if uses[f.subject] == nil {
			uses[f.subject] = map[string]bool{}
		}
		for to := range f.includes {
			uses[f.subject][to] = true
		}
	}
	assert.False(t, known["core"], "core.h declares what belongs to the headers of the subjects")
	noCircle(t, uses)
}

// noCircle fails where following uses from a source leads back to it.
func noCircle(t *testing.T, uses map[string]map[string]bool) {
	t.Helper()
	done := map[string]bool{}
	var visit func(at string, trail []string)
	visit = func(at string, trail []string) {
		if i := slices.Index(trail, at); i >= 0 {
			t.Errorf("sources use each other: %s", strings.Join(append(trail[i:], at), " -> "))
			return
		}
		for to := range uses[at] {
			if to != at && !done[to] {
				visit(to, append(slices.Clone(trail), at))
			}
		}
		done[at] = true
	}
	for source := range uses {
		visit(source, nil)
	}
}

var (
	cLineComment = regexp.MustCompile(`//.*`)
	cPrototype   = regexp.MustCompile(`(?m)^(?:[A-Za-z]\w* )+\**\w+\([^;{}]*\);`)
	cDefinition  = regexp.MustCompile(`(?m)^(static |TLK_INLINE )?(?:[A-Za-z]\w* )+\**((?:tl|la)_\w+)\([^;{}]*\) \{`)
)

// The CPU device's sources share one header, so a source uses those whose functions it names. What a header defines,
// such as the drivers of products, belongs to the sources that include it.
func TestSourcesOfTheCPUDeviceFormNoCircle(t *testing.T) {
	folder := filepath.Join(root(t), "kernels", "cpu")
	paths, err := filepath.Glob(filepath.Join(folder, "*.c"))
	require.NoError(t, err)
	code, defines := map[string]string{}, map[string]string{}
	for _, p := range paths {
		name := filepath.Base(p)
		text := ""
		for todo := []string{name}; len(todo) > 0; todo = todo[1:] {
			b, err := os.ReadFile(filepath.Join(folder, todo[0]))
			require.NoError(t, err)
			text += string(b)
			for _, m := range cInclude.FindAllSubmatch(b, -1) {
				if h := string(m[1]) + ".h"; !slices.Contains(todo, h) {
					todo = append(todo, h)
				}
			}
		}
		code[name] = cPrototype.ReplaceAllString(cLineComment.ReplaceAllString(text, ""), "")
		for _, m := range cDefinition.FindAllStringSubmatch(code[name], -1) {
			if m[1] == "" {
				defines[m[2]] = name
			}
		}
	}
	uses := map[string]map[string]bool{}
	for name, text := range code {
		uses[name] = map[string]bool{}
		for _, w := range cWord.FindAllString(text, -1) {
			if to := defines[w]; to != "" && to != name {
				uses[name][to] = true
			}
		}
	}
	require.True(t, uses["program.c"]["gemm.c"] && uses["gemm.c"]["runner.c"], "the calls were not found: %v", uses)
	noCircle(t, uses)
}

// A header that another one includes would hide who uses what, and with it a circle. So includes are what the code
// uses: no more, and no less.
func TestSourcesOfTheExtensionIncludeWhatTheyUse(t *testing.T) {
	all := extension(t)
	for _, f := range all {
		for _, h := range all {
			if !h.header || h.subject == f.subject || h.subject == "cpython" {
				continue
			}
			used := ""
			for name := range h.declares {
				if f.words[name] && !f.declares[name] {
					used = name
				}
			}
			if used != "" {
				assert.True(t, f.includes[h.subject], "%s uses %s and does not include %s", f.name, used, h.name)
			} else {
				assert.False(t, f.includes[h.subject], "%s includes %s and uses nothing of it", f.name, h.name)
			}
		}
	}
}

// What x.h declares is defined in x.c, so that an include says which source is called.
func TestHeadersOfTheExtensionDeclareTheirOwnSubject(t *testing.T) {
	sources := map[string]cFile{}
	for _, f := range extension(t) {
		if !f.header {
			sources[f.subject] = f
		}
	}
	for _, f := range extension(t) {
		for name, elsewhere := range f.functions {
			if f.header && elsewhere {
				assert.True(t, sources[f.subject].words[name], "%s declares %s, which is not in %s.c", f.name, name, f.subject)
			}
		}
	}
}
