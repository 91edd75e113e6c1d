package cpu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThreadsShareProductsEvenly(t *testing.T) {
	// The busier thread's part, at most, and what one piece adds to it.
	limits := map[string]struct {
		percent, piece int
	}{"rows": {53, 0}, "columns": {50, 32}, "panels": {50, 1}, "packed": {53, 0}}
	found := map[string]int{}
	for line := range strings.Lines(runC(t, "testdata/blocks.c")) {
		var name string
		var whole, busier int
		_, err := fmt.Sscan(line, &name, &whole, &busier)
		require.NoError(t, err)
		require.Contains(t, limits, name)
		assert.LessOrEqual(t, busier, whole*limits[name].percent/100+limits[name].piece, line)
		assert.GreaterOrEqual(t, 2*busier, whole, line)
		found[name]++
	}
	assert.Len(t, found, len(limits))
}
