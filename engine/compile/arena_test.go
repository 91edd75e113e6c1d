package compile

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// Temporaries that are needed at the same time lie apart; others share their place, and small ones fill the gaps.
func TestTemporariesOfAnArenaLieApartWhileTheyLive(t *testing.T) {
	at := func(size int64, begin, end int) placed { return placed{size: size, span: span{begin, end}} }
	for name, c := range map[string]struct {
		list  []placed
		bytes int64
	}{
		"one after another": {[]placed{at(128, 0, 1), at(128, 2, 3), at(64, 4, 9)}, 128},
		"all at once":       {[]placed{at(128, 0, 3), at(64, 1, 3), at(256, 3, 4)}, 448},
		"a gap":             {[]placed{at(256, 0, 9), at(192, 0, 2), at(128, 3, 5), at(64, 4, 6), at(64, 1, 9)}, 512},
		"none":              {nil, 0},
	} {
		assert.Equal(t, c.bytes, firstFit(c.list), name)
		for i, x := range c.list {
			for _, y := range c.list[:i] {
				together := x.begin <= y.end && y.begin <= x.end
				assert.False(t, together && x.at < y.at+y.size && y.at < x.at+x.size, "%s: %v and %v", name, x, y)
			}
		}
	}
	a := Arena{Bytes: 256, Parts: []ArenaPart{{0, 128, 0, 1}, {128, 64, 1, 2}, {0, 128, 2, 3}}}
	assert.Equal(t, [2]int64{320, 192}, [2]int64{a.Sum(), a.Live()})
}
