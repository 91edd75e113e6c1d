package policy

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	maxLine    = 120
	maxSubject = 72
	// firstCheckedCommit is the commit after which subjects are held to maxSubject.
	firstCheckedCommit = "d85ea6e6fd77ee48b7931c6a8a41658391b930a2"
)

// generatedMark is the first line of a generated file.
var generatedMark = regexp.MustCompile(`(Code generated|Made by) .* DO NOT EDIT`)

// tracked lists the files that git tracks with one of the extensions; generated ones are left out.
func tracked(t *testing.T, extensions ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for p, text := range trackedWithGenerated(t, extensions...) {
		if head, _, _ := strings.Cut(text, "\n"); !generatedMark.MatchString(head) {
			texts[p] = text
		}
	}
	require.NotEmpty(t, texts)
	return texts
}

func trackedWithGenerated(t *testing.T, extensions ...string) map[string]string {
	t.Helper()
	top := root(t)
	cmd := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = top
	list, err := cmd.Output()
	if err != nil {
		t.Skipf("no git checkout, so the files are unknown: %v", err)
	}
	texts := map[string]string{}
	for _, p := range strings.Split(strings.TrimRight(string(list), "\x00"), "\x00") {
		for _, e := range extensions {
			if path.Ext(p) != e {
				continue
			}
			text, err := os.ReadFile(filepath.Join(top, p))
			if err != nil {
				continue // deleted in the work tree
			}
			texts[p] = string(text)
		}
	}
	require.NotEmpty(t, texts)
	return texts
}

// Generated C is read as the ABI's documentation, so its lines fit too.
func TestLinesFit(t *testing.T) {
	texts := trackedWithGenerated(t, ".c", ".h")
	maps.Copy(texts, tracked(t, ".go", ".py"))
	for p, text := range texts {
		for i, line := range strings.Split(text, "\n") {
			if n := utf8.RuneCountInString(line); n > maxLine {
				t.Errorf("%s:%d: %d columns, want at most %d", p, i+1, n, maxLine)
			}
		}
	}
}

// citation matches references to documents that are not in the repository.
var citation = regexp.MustCompile(
	`\bDESIGN\b|\b[Tt]he spec\b|\b[Ss]pec section|\bspec §|§ ?\d|\bcondition \(i|\bissue \d`)

// quoted are the texts in which citation finds words that PyTorch's own text has.
var quoted = map[string]string{
	"python/torchlette/utils/_pytree.py": "but the spec refers to a pytree that", // the error of tree_unflatten
}

func TestOnlyDocumentsOfTheRepositoryAreCited(t *testing.T) {
	for p, text := range tracked(t, ".go", ".c", ".h", ".py", ".md") {
		if p == "ci/policy/style_test.go" || strings.HasPrefix(p, "benchmarks/results/") {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			if q := quoted[p]; q != "" {
				line = strings.ReplaceAll(line, q, "")
			}
			if m := citation.FindString(line); m != "" {
				t.Errorf("%s:%d: %q cites a document that is not in the repository", p, i+1, m)
			}
		}
	}
}

var (
	glossaryRow = regexp.MustCompile(`(?m)^\| not (.+?) \|`)
	quotedWord  = regexp.MustCompile("`([^`]+)`")
)

// docs/glossary.md ends with a table of words that the project does not use, for the field has its own.
func TestWordsAreTheFields(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root(t), "docs", "glossary.md"))
	require.NoError(t, err)
	var banned []string
	for _, row := range glossaryRow.FindAllStringSubmatch(string(page), -1) {
		for _, w := range quotedWord.FindAllStringSubmatch(row[1], -1) {
			banned = append(banned, regexp.QuoteMeta(w[1]))
		}
	}
	require.Greater(t, len(banned), 15, "the glossary's table of replaced words was not found")
	word := regexp.MustCompile(`\b(` + strings.Join(banned, "|") + `)\b`)
	for p, text := range tracked(t, ".go", ".c", ".h", ".py", ".md") {
		if p == "docs/glossary.md" {
			continue
		}
		for i, line := range strings.Split(text, "\n") {
			if m := word.FindString(line); m != "" {
				t.Errorf("%s:%d: %q is a word that docs/glossary.md replaces", p, i+1, m)
			}
		}
	}
}

// What an operator or a primitive is like is a field of its entry. A comparison of its name is a second home.
func TestNoOperatorIsKnownByItsName(t *testing.T) {
	isName := func(e ast.Expr) bool {
		s, ok := e.(*ast.SelectorExpr)
		return ok && s.Sel.Name == "Name"
	}
	isText := func(e ast.Expr) bool {
		l, ok := e.(*ast.BasicLit)
		return ok && l.Kind == token.STRING && l.Value != `""`
	}
	for _, f := range sources(t) {
		inside := strings.HasPrefix(f.dir, "engine/op") || !strings.HasPrefix(f.dir, "engine")
		if f.test || inside {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				compares := n.Op == token.EQL || n.Op == token.NEQ
				if compares && (isName(n.X) && isText(n.Y) || isName(n.Y) && isText(n.X)) {
					t.Errorf("%s compares a name with a string", fset.Position(n.Pos()))
				}
			case *ast.SwitchStmt:
				if n.Tag != nil && isName(n.Tag) {
					t.Errorf("%s switches on a name", fset.Position(n.Pos()))
				}
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && (s.Sel.Name == "PrimNamed" || s.Sel.Name == "DefNamed") {
					t.Errorf("%s looks up an entry by its name", fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
}

// minTests is the least share of test lines in a package, in percent of its code's lines.
const minTests = 20

// testedElsewhere names the packages whose tests are not beside them, and where they are.
var testedElsewhere = map[string]string{
	"capi":                      "ci/c_program.sh and every Python test run through it",
	"cmd/attentiontiles":        "a command that measures: its generators are tested in kernels/gpucode",
	"cmd/gemmtiles":             "a command that measures: its generators are tested in kernels/gpucode",
	"cmd/internal/trial":        "a helper of the two commands that measure",
	"cmd/opgen":                 "python/tests/ops/test_parity.py runs what it writes; its own test finds a stale file",
	"engine/op/composite":       "its samples are the tests: python/tests/ops runs them beside PyTorch",
	"engine/op/optest":          "a package of tests",
	"engine/op/samples":         "a package of tests",
	"gpu/fake":                  "a package of tests",
	"kernels/cpu/vector":        "C alone: the tests of kernels/cpu run its instructions",
	"kernels/device/devicetest": "a package of tests",
	"kernels/kerneltest":        "a package of tests",
	"kernels/reference":         "it is the oracle: kernels/device/devicetest compares every device with it",
}

func TestPackagesHaveTestsBesideThem(t *testing.T) {
	code, tests := map[string]int{}, map[string]int{}
	for _, f := range sources(t) {
		if f.generated {
			continue
		}
		if f.test {
			tests[f.dir] += f.lines
		} else {
			code[f.dir] += f.lines
		}
	}
	for dir, n := range code {
		if reason := testedElsewhere[dir]; reason == "" {
			assert.GreaterOrEqual(t, 100*tests[dir], minTests*n, "%s: %d lines of tests beside %d of code", dir, tests[dir], n)
		}
	}
	for dir := range testedElsewhere {
		assert.NotZero(t, code[dir], "%s is listed and has no code", dir)
	}
}

func TestCommitSubjectsFit(t *testing.T) {
	cmd := exec.Command("git", "log", "--no-merges", "--format=%h %s", firstCheckedCommit+"..HEAD")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("the history does not reach back to %s: %v", firstCheckedCommit[:7], err)
	}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		hash, subject, _ := strings.Cut(lines.Text(), " ")
		assert.LessOrEqual(t, utf8.RuneCountInString(subject), maxSubject, "%s: %s", hash, strconv.Quote(subject))
	}
}
