package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/torchlette/torchlette/engine/op"
)

// primitivesPage writes docs/primitives.md: a row for each primitive in order of registration.
func primitivesPage(prims []*op.Prim) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s# Primitives\n\n", notice)
	fmt.Fprintf(&b, "The %d primitives that the graph records; `engine/op/prim` has an entry for each, `engine/lower` a "+
		"lowering.\n", len(prims))
	b.WriteString(paragraph("Form: operands, attributes in braces, results; a program's text has the attributes in this " +
		"order. Broadcasting and views are done before a primitive is recorded: operands of a map have the result's shape. " +
		"Gradient: the operands (x) and results (y), counted from 0, that the rule reads and the tape saves, or why there " +
		"is none. Properties: E elementwise; I checks indices; D reports data errors; R draws random numbers; W writes " +
		"through a view; U combines in any order. Batch: how vmap computes it, see " +
		"[transforms](internals/transforms.md). Forward: which rule gives tangents, see there too."))
	b.WriteString("| primitive | form | variants | gradient | properties | batch | forward | |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	for _, p := range prims {
		fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s | %s | %s | %s | %s |\n", p.Name, p.Form, strings.Join(p.Variants, ", "),
			gradientOf(p), propertiesOf(p), p.BatchKind, forwardOf(p), strings.ReplaceAll(p.Doc, "|", "\\|"))
	}
	return b.Bytes()
}

// gradientOf lists what the gradient rule of p reads.
func gradientOf(p *op.Prim) string {
	if p.VJP == nil {
		return "none: " + string(p.NoVJP)
	}
	saved := []string{}
	add := func(letter string, mask uint32) {
		for i := range 32 {
			if mask&(1<<i) != 0 {
				saved = append(saved, fmt.Sprintf("%s%d", letter, i))
			}
		}
	}
	if p.SaveIn == ^uint32(0) {
		saved = append(saved, "all x")
	} else {
		add("x", p.SaveIn)
	}
	add("y", p.SaveOut)
	if len(saved) == 0 {
		return "reads nothing"
	}
	return strings.Join(saved, " ")
}

// forwardOf names the kind of p's JVP rule.
func forwardOf(p *op.Prim) string {
	if p.VJP == nil {
		return "none"
	}
	return p.JVPKind.String()
}

func propertiesOf(p *op.Prim) string {
	s := ""
	for _, f := range []struct {
		letter string
		has    bool
	}{{"E", p.Elementwise}, {"I", p.IndexInput > 0}, {"D", p.DataError != nil}, {"R", p.Random || p.Seed != nil},
		{"W", p.WritesView}, {"U", p.Unordered}} {
		if f.has {
			s += f.letter
		}
	}
	return s
}
