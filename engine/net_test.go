package engine

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The safety net's windows of a loop hold whole iterations, so they are runs of one plan.
func TestTheSafetyNetCutsALoopBetweenIterations(t *testing.T) {
	r := newRig(t)
	x := r.do("expand", r.floats(nil, 0.5), []int64{1024}) // 4 KiB a node
	require.Nil(t, r.e.SetOption("pending_bytes", "131072"))
	for range 40 {
		r.sourceLoc = 1
		y := r.do("tanh", r.do("add", r.do("mul", x, 2.0), 1.0))
		r.sourceLoc = 2
		x = r.do("neg", r.do("mul", y, 0.5))
	}
	var nodes, plans []int64
	for _, w := range info[[]windowRun](r, "windows") {
		nodes, plans = append(nodes, w.Nodes), append(plans, w.Plan)
	}
	require.Greater(t, len(nodes), 8)
	assert.Equal(t, slices.Repeat([]int64{15}, len(nodes)), nodes, "three iterations of five nodes")
	assert.Equal(t, 1, len(slices.Compact(plans[1:])), "one plan behind the first window")
}
