package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/ir"
)

// A call whose data must satisfy a requirement records; the read of what depends on it raises, others do not.
func TestDataThatIsRefusedFailsAtTheRead(t *testing.T) {
	r := newRig(t)
	x := r.floats([]int64{2, 3}, 1, 2, 4, 3, 1, 0)
	for range 3 { // by the rule, by the captured rule, and by replay
		good := r.do("cov", x, 1, r.ints(1, 2, 1))
		bad := r.do("cov", x, 1, r.ints(1, -1, 1))
		_, err := r.tryRead(bad)
		require.NotNil(t, err)
		assert.Equal(t, ir.ErrRuntime, err.Code)
		assert.Contains(t, err.Msg, "fweights cannot be negative")
		assert.Len(t, r.read(good), 4)
	}
}
