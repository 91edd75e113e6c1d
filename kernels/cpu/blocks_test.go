package cpu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThreadsShareRowsOfNarrowProductsEvenly(t *testing.T) {
	lines := runC(t, "testdata/blocks.c")
	require.NotEmpty(t, lines)
	for line := range strings.Lines(lines) {
		var rows, busier int
		_, err := fmt.Sscan(line, &rows, &busier)
		require.NoError(t, err)
		assert.LessOrEqual(t, busier, rows*53/100, "of %d rows", rows)
		assert.GreaterOrEqual(t, 2*busier, rows)
	}
}
