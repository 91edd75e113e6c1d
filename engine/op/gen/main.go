package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/torchlette/torchlette/engine/op"
	_ "github.com/torchlette/torchlette/engine/op/comp" // registers the operators
)

// artifacts lists the generated files by their path under the root.
var artifacts = []struct {
	path  string
	write func(defs []*op.Def) []byte
}{
	{"python/csrc/ops_table.inc", cTable},
	{"python/torchlette/_C.pyi", stubs},
	{"docs/operators.md", page},
	{"python/tests/parity/ops.json", manifest},
}

func main() {
	root := flag.String("root", ".", "the repository's root")
	check := flag.Bool("check", false, "fail when a file differs instead of writing it")
	flag.Parse()
	stale := 0
	for _, a := range artifacts {
		path := filepath.Join(*root, filepath.FromSlash(a.path))
		text := a.write(op.Defs())
		old, err := os.ReadFile(path)
		if err == nil && string(old) == string(text) {
			continue
		}
		if *check {
			fmt.Fprintf(os.Stderr, "%s is stale: run go generate ./engine/op/comp\n", a.path)
			stale++
			continue
		}
		if err := write(path, text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	if stale > 0 {
		os.Exit(1)
	}
}

func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
