package compile_test

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// savedChain is like a training step: n values of 128 KiB in a chain are saved, then read from the last to the first by
// what makes results of 96 KiB.
func savedChain(n int) string {
	var b strings.Builder
	b.WriteString("input $0 : f32[32768]\n%0 = cat{0} $0[16384] $0[16384]+5 : f32[32768]\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "%%%d = cat{0} %%%d[16384]+%d %%%d[16384] : f32[32768]\n", i, i-1, i, i-1)
	}
	for i := range n {
		fmt.Fprintf(&b, "%%%d = cat{0} %%%d[24570]+%d $0[6] : f32[24576] live\n", n+i, n-1-i, i)
	}
	return b.String()
}

// checkSections requires that each step's buffers are acquired before it and returned after it, once, and returns what
// the plan takes at most.
func checkSections(t *testing.T, p *compile.Plan) (most int64) {
	t.Helper()
	held, had := map[int]bool{}, map[int]bool{}
	now := int64(0)
	for i := range p.Segments {
		s := &p.Segments[i]
		for _, n := range s.Acquires {
			require.False(t, had[n], "slot %d is acquired twice", n)
			held[n], had[n] = true, true
			now += p.Slots[n].PoolBytes()
		}
		most = max(most, now)
		for _, st := range s.Steps {
			for _, n := range st.Bufs {
				older := n < len(p.Slots) && p.Slots[n].Kind == compile.External
				require.True(t, held[n] || older || n >= len(p.Slots), "slot %d in section %d", n, i)
			}
		}
		for _, n := range s.Releases {
			require.True(t, held[n] && p.Slots[n].Kind == compile.Temp, "slot %d", n)
			delete(held, n)
			now -= p.Slots[n].PoolBytes()
		}
	}
	return most
}

// A plan that is cut into sections takes less memory, and what it says; its values have the same bits.
func TestSectionsHoldBuffersWhileTheyAreUsed(t *testing.T) {
	c, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	r := rand.New(rand.NewSource(5))
	cut := 0
	for n := range 24 {
		p := program.MustParse(randomChain(r, 10+r.Intn(20)))
		var d device.Device = c
		if n%4 == 0 {
			d = reference.New()
		}
		with, without := build(t, d, p), build(t, d, p, "sections")
		if with.Most == 0 {
			continue
		}
		cut++
		all := int64(0)
		for i := range without.Slots {
			if s := &without.Slots[i]; s.Kind != compile.External {
				all += s.PoolBytes()
			}
		}
		assert.Equal(t, with.Most, checkSections(t, with))
		assert.Less(t, with.Most, all-all/9, "%s", p)
		require.Equal(t, run(t, d, without), run(t, d, with), "%s", p)
	}
	assert.Greater(t, cut, 4)
}

// randomChain is a program of n large values, each made of one of the three before it, and of n smaller results, which
// read them from the last to the first, with others in between.
func randomChain(r *rand.Rand, n int) string {
	var b strings.Builder
	b.WriteString("input $0 : f32[32768]\n")
	large := []string{"$0"}
	value := func(dim int, from string, i int) {
		switch r.Intn(3) {
		case 0:
			fmt.Fprintf(&b, "%%%d = add %s[%d] %s[%d] : f32[%d]", i, from, dim, large[len(large)-1], dim, dim)
		default:
			fmt.Fprintf(&b, "%%%d = cat{0} %s[%d]+%d $0[100] : f32[%d]", i, from, dim-100, i, dim)
		}
	}
	for i := range n {
		value(32768, large[max(0, len(large)-1-r.Intn(3))], i)
		b.WriteString("\n")
		large = append(large, fmt.Sprintf("%%%d", i))
	}
	for i := n; i < 2*n; i++ {
		value(17000+1000*r.Intn(8), large[len(large)-1-r.Intn(min(3, len(large)))], i)
		if large = large[:max(1, len(large)-r.Intn(3))]; r.Intn(3) > 0 {
			b.WriteString(" live")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// No section begins after the first write to a buffer that is older than the plan: where one gets no buffer, nothing
// has changed.
func TestNoSectionBeginsAfterAWrite(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(savedChain(12)), "\n")
	at := slices.IndexFunc(lines, func(s string) bool { return strings.HasPrefix(s, "%20 ") })
	lines[at] = "%20 = add $1 %3 : f32[32768] live"
	lines[0] += "\ninput $1 : f32[32768]"
	lines = append(lines, "store %20 over $1 base 0 last exclusive\n")
	p := build(t, reference.New(), program.MustParse(strings.Join(lines, "\n")))
	require.Positive(t, p.Most)
	require.Equal(t, 1, p.InPlace)
	assert.Equal(t, compile.StepPlace{Segment: len(p.Segments) - 1}, p.Overwrites)
	checkSections(t, p)
}
