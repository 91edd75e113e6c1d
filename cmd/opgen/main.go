package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/torchlette/torchlette/engine/op"
	_ "github.com/torchlette/torchlette/engine/op/composite" // registers the operators
)

// outputs returns the text of every generated file by its path under the root.
func outputs(root string, defs []*op.Def) (map[string][]byte, error) {
	family, err := families(filepath.Join(root, "engine", "op", "composite"), defs)
	if err != nil {
		return nil, err
	}
	out := pages(family, defs)
	out["docs/primitives.md"] = primitivesPage(op.Prims())
	maps.Copy(out, dtypeTables(dtypeRows()))
	out["python/csrc/ops_table.inc"] = cTable(defs)
	out["python/torchlette/_C.pyi"] = stubs(defs)
	out["python/tests/ops/ops.json"] = manifest(defs)
	return out, nil
}

func main() {
	root := flag.String("root", ".", "the repository's root")
	check := flag.Bool("check", false, "fail when a file differs instead of writing it")
	flag.Parse()
	stale, err := generate(*root, *check)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	for _, path := range stale {
		fmt.Fprintf(os.Stderr, "%s is stale: run make generate\n", path)
	}
	if err != nil || len(stale) > 0 {
		os.Exit(1)
	}
}

// generate writes the files that differ, and removes pages of families that no longer exist. With check it only lists
// them.
func generate(root string, check bool) (stale []string, err error) {
	out, err := outputs(root, op.Defs())
	if err != nil {
		return nil, err
	}
	old, err := filepath.Glob(filepath.Join(root, "docs", "operators", "*.md"))
	if err != nil {
		return nil, err
	}
	for _, path := range old {
		name := "docs/operators/" + filepath.Base(path)
		if out[name] != nil {
			continue
		}
		if stale = append(stale, name); !check {
			err = errors.Join(err, os.Remove(path))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		path := filepath.Join(root, filepath.FromSlash(name))
		if have, x := os.ReadFile(path); x == nil && bytes.Equal(have, out[name]) {
			continue
		}
		if stale = append(stale, name); !check {
			err = errors.Join(err, write(path, out[name]))
		}
	}
	if !check {
		stale = nil
	}
	return stale, err
}

func write(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}
