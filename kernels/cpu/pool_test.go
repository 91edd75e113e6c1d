package cpu

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A loop of testdata/pool.c: its end, the first piece of each worker, and how often each piece ran.
type poolLoop struct {
	end          int
	first, times []int
}

const poolThreads, poolEach, poolGrain = 3, 4, 5 // THREADS, EACH and GRAIN of testdata/pool.c

// runC compiles a program in C, runs it, and returns what it prints.
func runC(t *testing.T, source string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: under emulation the compiler's program cannot be started")
	}
	cc, program := os.Getenv("CC"), filepath.Join(t.TempDir(), "program")
	if cc == "" {
		cc = "cc"
	}
	out, err := exec.Command(cc, "-std=gnu11", "-O2", "-pthread", "-o", program, source).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(program).Output()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// poolLoops returns the loops of testdata/pool.c by name.
func poolLoops(t *testing.T) map[string][]poolLoop {
	t.Helper()
	loops := map[string][]poolLoop{}
	for line := range strings.Lines(runC(t, "testdata/pool.c")) {
		fields := strings.Fields(line)
		n := make([]int, len(fields)-1)
		for i, f := range fields[1:] {
			var err error
			n[i], err = strconv.Atoi(f)
			require.NoError(t, err)
		}
		l := poolLoop{end: n[0], first: n[1 : 1+poolThreads], times: n[1+poolThreads:]}
		loops[fields[0]] = append(loops[fields[0]], l)
	}
	return loops
}

func TestWorkersBeginWithTheirShareAndEveryOtherLoopGoesBackward(t *testing.T) {
	loops := poolLoops(t)
	require.Len(t, loops["shares"], 4)
	for i, l := range loops["shares"] {
		for worker, piece := range l.first {
			assert.Equal(t, worker, piece/poolEach, "loop %d", i)
			assert.Contains(t, []int{0, poolEach - 1}, piece%poolEach, "loop %d", i)
			assert.Equal(t, l.first[0], piece%poolEach, "loop %d", i)
		}
		if i > 0 {
			assert.NotEqual(t, loops["shares"][i-1].first, l.first, "loop %d", i)
		}
		assert.Equal(t, poolThreads*poolEach*poolGrain-2, l.end)
		for _, n := range l.times {
			assert.Equal(t, 1, n)
		}
	}
	for _, l := range loops["deadline"] {
		assert.Equal(t, []int{0, poolEach, 2 * poolEach}, l.first, "what a deadline stops begins at the front")
	}
	assert.ElementsMatch(t, []int{0, 1, 2}, loops["in-order"][0].first)
}

func TestAStoppedLoopReturnsTheEndOfWhatRanWithoutAGap(t *testing.T) {
	loops := poolLoops(t)
	for _, name := range []string{"stopped", "stopped-in-order"} {
		require.Len(t, loops[name], poolThreads*poolEach)
		for _, l := range loops[name] {
			pieces := (l.end + poolGrain - 1) / poolGrain
			for piece, n := range l.times {
				switch {
				case piece < pieces:
					assert.Equal(t, 1, n, "%s: piece %d of %v", name, piece, l)
				case piece == pieces || name == "stopped-in-order":
					assert.Zero(t, n, "%s: piece %d of %v", name, piece, l)
				default:
					assert.LessOrEqual(t, n, 1)
				}
			}
		}
	}
}

// A system that overcommits gives more than there is, and ends the process that uses it.
func TestNoBlockIsLargerThanTheMachinesMemory(t *testing.T) {
	assert.Equal(t, "1 0\n", runC(t, "testdata/memory.c"))
}

func TestGuidedClaimsAreWideAtFirstAndNarrowAtTheEnd(t *testing.T) {
	l := poolLoops(t)["guided"][0] // its times begin with the last claims
	assert.Equal(t, []int{16, 16, 16}, l.first, "a quarter of a share")
	assert.Contains(t, l.times[:poolThreads], 1, "the last claim of all has one piece")
	assert.Less(t, l.end, 64*poolThreads/2, "claims")
	for i, n := range l.times[poolThreads:] {
		assert.Equal(t, 1, n, "piece %d", i)
	}
}
