package compile_test

import (
	"math/rand"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/engine/lower"
	"github.com/torchlette/torchlette/engine/program"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/cpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// explained returns what planning decides about a program on a device.
func explained(t *testing.T, d device.Device, p *program.Program, off ...string) *compile.Decisions {
	t.Helper()
	b := compile.Builder{Program: p, Caps: func(ir.DeviceID) *device.Caps { return d.Caps() }, Lowered: &lower.Memo{},
		Debug: compile.Debug{Off: off},
		TileFuser: func(ir.DeviceID) device.TileFuser {
			c, _ := d.(device.TileFuser)
			return c
		}}
	found, err := b.Explain()
	require.NoError(t, err, "%s", p)
	return found
}

func TestDecisions(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		off        []string
		computedBy []int
		lifetimes  []compile.Lifetime
	}{
		{"a fusion group", `input $0 : f32[5]
%0 = mul $0 2.0 : f32[5]
%1 = add %0 1.0 : f32[5] live
`, nil, []int{1, 1}, []compile.Lifetime{{0, -1, 2, 20, []int{}}, {1, 1, 2, 20, []int{1}}}},
		{"a temporary", `input $0 : f32[5]
%0 = mul $0 2.0 : f32[5]
%1 = sum{0} %0 : f32[] live
`, []string{"fuse"}, []int{0, 1}, []compile.Lifetime{{0, -1, 2, 20, []int{}}, {2, 0, 1, 20, []int{0}},
			{1, 1, 2, 4, []int{1}}}},
		{"a sum takes what it adds", `input $0 : f32[5]
%0 = mul $0 2.0 : f32[5]
%1 = sum{0} %0 : f32[] live
`, nil, []int{1, 1}, []compile.Lifetime{{0, -1, 2, 20, []int{}}, {1, 1, 2, 4, []int{1}}}},
		{"temporaries that share a buffer", `input $0 : f32[5]
%0 = mul $0 2.0 : f32[5]
%1 = cat{0} %0 : f32[5]
%2 = mul %1 2.0 : f32[5]
%3 = sum{0} %2 : f32[] live
`, []string{"donate", "fuse"}, []int{0, 1, 2, 3}, []compile.Lifetime{{0, -1, 4, 20, []int{}}, {2, 0, 1, 20, []int{0}},
			{3, 1, 2, 20, []int{1}}, {2, 2, 3, 20, []int{2}}, {1, 3, 4, 4, []int{3}}}},
		{"an epilogue, and a store in place", `input $0 : f32[2,3]
input $1 : f32[3,3]
input $2 : f32[2,3]
%0 = matmul{0,0} $0 $1 : f32[2,3]
%1 = add %0 $0 : f32[2,3]
%2 = relu %1 : f32[2,3] live
%3 = add $2 $0 : f32[2,3] live
store %3 over $2 base 0 last exclusive
`, nil, []int{0, 0, 0, 3}, []compile.Lifetime{{0, -1, 4, 24, []int{}}, {1, -1, 4, 36, []int{}},
			{2, -1, 4, 24, []int{3}}, {3, 0, 4, 24, []int{0, 2}}}},
		{"a write through a view", `input $0 : f32[2,3]
%0 = add $0[2](3)+1 1.5 : f32[2]
%1 = strided_scatter{[2](3)} $0 %0 1 : f32[2,3] live
store %1 over $0 base 0 last exclusive
`, nil, []int{0, 0}, []compile.Lifetime{{0, -1, 2, 24, []int{0, 1}}}},
		{"a further result", `input $0 : f32[2,3]
%0 = extremum_dim{max_dim,1} $0 : f32[2]
%1 = result{1} %0 : i64[2] live
`, nil, []int{0, 0}, []compile.Lifetime{{0, -1, 2, 24, []int{}}, {2, 0, 1, 8, []int{0}}, {1, 0, 2, 16, []int{1}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := explained(t, reference.New(), program.MustParse(tc.text), tc.off...)
			assert.Equal(t, tc.computedBy, found.ComputedBy)
			assert.Equal(t, tc.lifetimes, found.Lifetimes)
			for _, p := range found.Passes {
				assert.NotEmpty(t, p.Reason)
				if p.Off {
					assert.Contains(t, tc.off, p.Name)
					assert.Empty(t, p.Notes)
				}
			}
		})
	}
}

// The plan that is looked at is the plan that runs. Each of its steps belongs to a node that computes its own value,
// and uses buffers while they hold something. No buffer holds two values at a time.
func TestDecisionsAreThoseOfThePlan(t *testing.T) {
	c, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	r := rand.New(rand.NewSource(3))
	tiles := 0
	for n := range 150 {
		text := scribble(r)
		if n%2 == 1 {
			text = maps(r, 3001)
		}
		p := program.MustParse(text)
		for _, d := range []device.Device{reference.New(), c} {
			plan, found := build(t, d, p), explained(t, d, p)
			require.Equal(t, plan.Slots, found.Plan.Slots, "%s", p)
			require.Equal(t, plan.Results, found.Plan.Results, "%s", p)
			require.Len(t, found.Plan.Segments, len(plan.Segments))
			for i := range plan.Segments {
				for j, st := range plan.Segments[i].Steps {
					require.Equal(t, st.Bufs, found.Plan.Segments[i].Steps[j].Bufs, "%s", p)
					node := int(st.Event) - 1
					require.Equal(t, node, found.ComputedBy[node], "%s", p)
					for _, slot := range st.Bufs {
						require.True(t, slot >= len(plan.Slots) || held(found.Lifetimes, slot, node), "%d of %%%d:\n%s", slot, node, p)
					}
				}
			}
			for i, l := range found.Lifetimes {
				if l.Slot < 0 {
					tiles++
					continue
				}
				for _, o := range found.Lifetimes[:i] {
					require.True(t, o.Slot != l.Slot || o.Last < l.First || l.Last < o.First, "%v and %v\n%s", o, l, p)
				}
			}
		}
	}
	assert.Positive(t, tiles, "some values live within a tile")
}

// Where steps of a tile group would part if they shared a buffer, what the group reads keeps its buffer to the end.
func TestALifetimeLastsAsLongAsItsTileGroup(t *testing.T) {
	c, err := cpu.New(cpu.Options{Threads: 1})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	found := explained(t, c, program.MustParse(`input $0 : f32[20000]
%0 = cat{0} $0 $0 : f32[40000]
%1 = mul %0[20000](2) 2.0 : f32[20000]
%2 = add %1 1.0 : f32[20000]
%3 = `+cast("f64")+` %2 : f64[20000]
%4 = sum{0} %3 : f64[] live
`), "fuse")
	var ends []int
	for _, l := range found.Lifetimes {
		if len(l.Nodes) > 0 && l.Slot >= 0 {
			ends = append(ends, l.Last)
		}
	}
	assert.Equal(t, []int{3, 4, 5}, ends, "of %%0, %%3 and %%4; %%1 and %%2 live within a tile")
}

// held reports that a buffer holds a value when a node runs.
func held(list []compile.Lifetime, slot, node int) bool {
	for _, l := range list {
		if l.Slot == slot && l.First <= node && node <= l.Last {
			return true
		}
	}
	return false
}
