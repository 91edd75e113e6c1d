package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/fake"
	"github.com/torchlette/torchlette/kernels/device"
)

// gpuTarget is the GPU device over a driver in memory.
type gpuTarget struct {
	device.Device
	d      *fake.Driver
	lost   bool        // a fault made it so
	opened fake.Driver // a copy from when the device was open: opening makes calls too
}

func newGPU(t *testing.T) func() target {
	return func() target {
		d := fake.New()
		d.Kind = gpu.Software // small workgroups: the interpreter pays for every lane
		d.Lag = 2
		dev, err := gpu.Open(d, gpu.Options{AllowSoftware: true, CacheDir: "-"})
		require.NoError(t, err)
		return &gpuTarget{Device: dev, d: d, opened: *d}
	}
}

func (g *gpuTarget) arm(kind string, at int) {
	g.lost = g.lost || kind == "lose"
	from := &g.opened.Calls
	g.d.Faults = map[string]fake.Faults{
		"": {}, "alloc": {Alloc: from.Alloc + at}, "build": {Pipeline: from.Pipeline + at},
		"bind": {BindGroup: from.BindGroup + at},
		"run":  {Submit: from.Submit + at}, "map": {Map: from.Map + at}, "lose": {LoseAt: from.Submit + at},
	}[kind]
}

func (g *gpuTarget) calls() map[string]int {
	n, from := &g.d.Calls, &g.opened.Calls
	return map[string]int{"alloc": n.Alloc - from.Alloc, "build": n.Pipeline - from.Pipeline,
		"bind": n.BindGroup - from.BindGroup,
		"run":  n.Submit - from.Submit, "map": n.Map - from.Map, "lose": n.Submit - from.Submit}
}

// left is 0: pipelines, pooled buffers and the bind groups that hold them are kept for the next plan; see shut.
func (g *gpuTarget) left() int { return 0 }

// shut leaves out buffers, which the engine's pool owns; a lost device is left behind as it is.
func (g *gpuTarget) shut() int {
	g.Close()
	if g.lost {
		return 0
	}
	n := &g.d.Live
	return n.Pipelines + n.BindGroups + n.Queries + n.Contexts
}

func TestEveryFaultAtEveryPointOfAGPU(t *testing.T) {
	testEveryFault(t, newGPU(t))
}
