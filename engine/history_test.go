package engine

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Two recordings of one function have one history; another number of saved values, or other shapes, give another. Steps
// from before a recording are left out.
func TestHistoryTellsRecordingsApart(t *testing.T) {
	r := newRig(t)
	x := r.grad(r.floats([]int64{2, 3}, 1, 2, 3, 4, 5, 6))
	old := r.do("sin", x)
	record := func(ops ...string) (saved int, hash uint64) {
		before, err := r.e.History(nil, 0)
		require.Nil(t, err)
		y := r.do("mul", old, x)
		for _, op := range ops {
			if op == "sum.dim" {
				y = r.do(op, y, []int64{1})
			} else {
				y = r.do(op, y)
			}
		}
		h, err := r.e.History([]uint64{uint64(y)}, before.Now)
		require.Nil(t, err)
		return h.Saved, h.Hash
	}
	saved, hash := record("exp", "sum.dim", "cos")
	again, hashAgain := record("exp", "sum.dim", "cos")
	assert.Equal(t, saved, again)
	assert.Equal(t, hash, hashAgain)
	fewer, _ := record("exp", "sum.dim")
	assert.Equal(t, saved-1, fewer, "cos saves its operand")
	same, other := record("exp", "cos", "sum.dim")
	assert.Equal(t, saved, same)
	assert.NotEqual(t, hash, other, "of another shape")
}
