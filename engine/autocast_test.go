package engine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/torchlette/torchlette/engine/op"
)

// A name that no operator has would cast nothing, and no other test would tell.
func TestAutocastNamesOperators(t *testing.T) {
	known := map[string]bool{}
	for _, d := range op.Defs() {
		known[d.Parsed.Name] = true
	}
	for i, lists := range autocastNames {
		seen := map[string]bool{}
		for _, names := range lists {
			for _, n := range strings.Fields(names) {
				assert.True(t, known[n], n)
				assert.False(t, seen[n], "%s is in two lists of device %d", n, i)
				seen[n] = true
			}
		}
	}
}
