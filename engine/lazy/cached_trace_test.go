package lazy

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCallsThatShareASetAreBothMet: a loop of two calls whose hashes fall into one set knows both the second time.
func TestCallsThatShareASetAreBothMet(t *testing.T) {
	var s SeenCalls
	a, b, c := uint64(7), uint64(7+seenSets), uint64(7+2*seenSets)
	assert.Equal(t, []bool{false, false, true, true}, []bool{s.SeenBefore(a), s.SeenBefore(b), s.SeenBefore(a),
		s.SeenBefore(b)})
	assert.False(t, s.SeenBefore(c))
	assert.False(t, s.SeenBefore(a), "the older of the two made room")
}
