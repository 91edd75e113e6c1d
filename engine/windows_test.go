package engine

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/engine/compile"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/reference"
)

// info is a document of Info.
func info[V any](r *rig, kind string) (v V) {
	text, err := r.e.Info(kind, 0)
	require.Nil(r.t, err)
	require.NoError(r.t, json.Unmarshal(text, &v))
	return v
}

func TestTheLogTellsWhyAndHowLongEachWindowRan(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2)
	assert.Empty(t, info[[]windowRun](r, "windows"))
	for range 2 {
		y := r.do("mul", x, 3.0)
		r.read(y)
		r.drop(y)
	}
	r.inplace("add", x, 1.0)
	require.Nil(t, r.step())
	r.inplace("add", x, 1.0)
	require.Nil(t, r.e.Flush())
	log := info[[]windowRun](r, "windows")
	require.Len(t, log, 4)
	var told []string
	for i, w := range log {
		told = append(told, fmt.Sprintf("%s plan %d step %d built %v", w.Why, w.Plan, w.Epoch, w.Cause != ""))
		assert.EqualValues(t, i+1, w.Number)
		assert.EqualValues(t, [3]int64{1, 1, 8}, [3]int64{w.Nodes, w.Kernels, w.Written})
		assert.EqualValues(t, i+1, w.Recorded)
		assert.Positive(t, w.Run)
		assert.GreaterOrEqual(t, w.End-w.Start, w.Key+w.Run, "one clock")
		if i > 0 {
			assert.GreaterOrEqual(t, w.Start, log[i-1].End)
		}
		assert.Positive(t, w.Build, "the time until the run")
		assert.Empty(t, w.Device, "it was not profiled")
	}
	assert.Equal(t, []string{"read plan 1 step 0 built true", "read plan 1 step 0 built false",
		"stores plan 2 step 0 built true", "stores plan 2 step 1 built false"}, told)
}

func TestTheLogKeepsTheLastWindows(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2)
	for range loggedWindows + 3 {
		r.inplace("add", x, 1.0)
		require.Nil(t, r.e.Flush())
	}
	log := info[[]windowRun](r, "windows")
	require.Len(t, log, loggedWindows)
	for i, w := range log {
		require.EqualValues(t, i+4, w.Number)
	}
}

func TestWaitsForADeviceAreLogged(t *testing.T) {
	d := reference.New()
	d.Lag = true
	r := &rig{t: t, dev: d}
	r.e = New(Config{Open: func(ir.DeviceID) (device.Device, error) { return d, nil }})
	x := r.floats(nil, 1, 2)
	r.inplace("add", x, 1.0)
	require.Nil(t, r.step())
	y := r.do("mul", x, 3.0)
	require.Nil(t, r.e.Flush())
	r.read(y)
	log := info[[]windowRun](r, "windows")
	require.Len(t, log, 2)
	assert.Positive(t, log[0].Waited, "mark_step")
	assert.Positive(t, log[1].Waited, "a read")
}

// watchedPlans is Info("watched").
type watchedPlans struct {
	Dropped int `json:"dropped"`
	Plans   []struct {
		Windows []int64 `json:"windows"`
		Timed   int     `json:"timed_runs"`
		Runs    int     `json:"runs"`
		Program []struct {
			Op, Text, Site string
			Reads          []int
			Live           bool
			By             int `json:"computed_by"`
		} `json:"program"`
		Inputs    []struct{ Text string } `json:"inputs"`
		Stores    []string                `json:"stores"`
		Passes    []compile.PassNotes     `json:"passes"`
		Lifetimes []compile.Lifetime      `json:"lifetimes"`
		Buffers   []struct{ Kind string } `json:"buffers"`
		Kernels   []struct {
			Op      string `json:"op"`
			Node    int    `json:"node"`
			Buffers []int  `json:"buffers"`
		} `json:"kernels"`
	} `json:"plans"`
}

func TestWatchedPlansTellWhatPassesDecided(t *testing.T) {
	r := newRig(t)
	x := r.floats(nil, 1, 2)
	assert.Empty(t, info[watchedPlans](r, "watched").Plans, "nobody watched")
	require.Nil(t, r.e.SetOption("watch", "1"))
	r.steps(x, 3)
	got := info[watchedPlans](r, "watched")
	require.Len(t, got.Plans, 1, "three runs of one plan")
	p := got.Plans[0]
	assert.Equal(t, []int64{1, 2, 3}, p.Windows)
	assert.Equal(t, 3, p.Runs)
	assert.Zero(t, p.Timed)
	require.Len(t, p.Program, 3)
	assert.Equal(t, "input $0 : f32[2]", p.Inputs[0].Text)
	assert.Equal(t, "%1 = add %0 3.0 : f32[2] live", p.Program[1].Text)
	assert.Equal(t, [][]int{{-1}, {0}, {-1, 1}}, [][]int{p.Program[0].Reads, p.Program[1].Reads, p.Program[2].Reads})
	assert.Equal(t, []string{"store %2 over $0 base 0 last exclusive"}, p.Stores)
	names := []string{}
	notes := map[string]map[int]string{}
	for _, pass := range p.Passes {
		names = append(names, pass.Name)
		notes[pass.Name] = pass.Notes
	}
	assert.Equal(t, compile.PassNames(false), names)
	assert.Equal(t, map[int]string{0: "done with %2", 1: "done with %2", 2: "fusion group %0 %1 %2"}, notes["fuse"])
	assert.Equal(t, map[int]string{2: "in place of $0"}, notes["inplace"])
	for _, n := range p.Program {
		assert.Equal(t, 2, n.By, "one kernel computes all")
	}
	require.Len(t, p.Kernels, 1)
	assert.Equal(t, "mul+add+add", p.Kernels[0].Op)
	assert.Equal(t, 2, p.Kernels[0].Node)
	require.Len(t, p.Buffers, 2, "the input, which the store writes over, and the value that is held")
	assert.ElementsMatch(t, []int{0, 1}, p.Kernels[0].Buffers)
	assert.Equal(t, []compile.Lifetime{{Slot: 0, First: -1, Last: 3, Bytes: 8, Nodes: []int{2}},
		{Slot: 1, First: 2, Last: 3, Bytes: 8, Nodes: []int{1}}}, p.Lifetimes)

	require.Nil(t, r.e.SetOption("watch", "0"))
	r.steps(x, 1)
	assert.Empty(t, info[watchedPlans](r, "watched").Plans, "the end of watching forgets")
	assert.NotNil(t, r.e.SetOption("watch", "yes"))
}

// Looking at a plan builds it again; nothing about the plan that runs changes.
func TestLookingAtAPlanLeavesItAsItIs(t *testing.T) {
	r := newSlowRig(t, 0)
	x := r.floats(nil, 1, 2)
	require.Nil(t, r.e.SetOption("watch", "1"))
	for _, want := range []int{3, 3, 1} { // the third run has the fusion group
		r.steps(x, 1)
		got := info[watchedPlans](r, "watched").Plans
		last := got[len(got)-1]
		assert.Len(t, last.Kernels, want)
		at := slices.IndexFunc(last.Passes, func(p compile.PassNotes) bool { return p.Name == "fuse" })
		require.GreaterOrEqual(t, at, 0)
		groups := last.Passes[at]
		assert.Equal(t, want == 1, len(groups.Notes) > 0, "the passes are those of the plan that ran")
	}
	assert.EqualValues(t, 1, r.stat("plans_built"))
	assert.EqualValues(t, 1, r.stat("plans_fused"))
	assert.EqualValues(t, 1, r.dev.Programs, "looking compiles no kernels")
}

func TestManyPlansAreNotAllWatched(t *testing.T) {
	r := newRig(t)
	require.Nil(t, r.e.SetOption("watch", "1"))
	for n := range maxWatched + 2 {
		x := r.floats(nil, make([]float32, n+1)...)
		y := r.do("mul", x, 3.0)
		r.read(y)
		r.drop(x, y)
	}
	got := info[watchedPlans](r, "watched")
	assert.Len(t, got.Plans, maxWatched)
	assert.Equal(t, 2, got.Dropped)
}

func TestTheEndOfAnEngineForgetsItsWindows(t *testing.T) {
	r := newRig(t)
	require.Nil(t, r.e.SetOption("watch", "1"))
	r.read(r.do("mul", r.floats(nil, 1, 2), 3.0))
	require.Nil(t, r.e.Reset())
	assert.Empty(t, info[[]windowRun](r, "windows"))
	assert.Empty(t, info[watchedPlans](r, "watched").Plans)
}
