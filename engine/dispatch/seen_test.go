package dispatch

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestCallsThatShareASetAreBothMet: two calls whose hashes share a set are both known at their second call.
func TestCallsThatShareASetAreBothMet(t *testing.T) {
	var s seenCalls
	a, b, c := uint64(7), uint64(7+seenSets), uint64(7+2*seenSets)
	assert.Equal(t, []bool{false, false, true, true}, []bool{s.seenBefore(a), s.seenBefore(b), s.seenBefore(a),
		s.seenBefore(b)})
	assert.False(t, s.seenBefore(c))
	assert.False(t, s.seenBefore(a), "the older of the two made room")
}
