package gpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

// TestAccessesOfASlotAreFoundWithoutLookingAtAll: readers of one weight, and writers of places of one result, are not
// compared with each other; and steps wait for what a comparison of all pairs finds.
func TestAccessesOfASlotAreFoundWithoutLookingAtAll(t *testing.T) {
	const n = 4096
	var weight, places accesses
	for i := range n {
		weight.note(access{step: i, hi: 64}, func(o int) { t.Fatalf("reader %d waits for %d", i, o) })
		at := int64(i) * 64
		places.note(access{step: i, lo: at, hi: at + 64, write: true}, func(o int) { t.Fatalf("%d waits for %d", i, o) })
	}
	assert.Zero(t, weight.looked)
	assert.LessOrEqual(t, places.looked, n)
	waits := 0
	weight.note(access{step: n, hi: 64, write: true}, func(int) { waits++ })
	assert.Equal(t, n, waits)

	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var fast accesses
		var slow []access
		for i := range 40 {
			lo := r.Int64N(20)
			x := access{step: i / 2, lo: lo, hi: lo + r.Int64N(9), write: r.IntN(3) == 0}
			var got, want []int
			fast.note(x, func(o int) { got = append(got, o) })
			kept := slow[:0]
			for _, o := range slow {
				if o.step != x.step && o.conflicts(&x) {
					want = append(want, o.step)
					if x.write && x.lo <= o.lo && o.hi <= x.hi {
						continue
					}
				}
				kept = append(kept, o)
			}
			slow = append(kept, x)
			slices.Sort(got)
			slices.Sort(want)
			assert.Equal(t, want, got)
		}
	}
}
