package live

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCallsThatShareASetAreBothMet: a loop of two calls whose hashes fall into one set knows both the second time.
func TestCallsThatShareASetAreBothMet(t *testing.T) {
	var s Seen
	a, b, c := uint64(7), uint64(7+seenSets), uint64(7+2*seenSets)
	assert.Equal(t, []bool{false, false, true, true}, []bool{s.Met(a), s.Met(b), s.Met(a), s.Met(b)})
	assert.False(t, s.Met(c))
	assert.False(t, s.Met(a), "the older of the two made room")
}
