package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/fake"
	"github.com/torchlette/torchlette/kernels/device"
)

// gpuTarget is the GPU device on an in-memory driver.
type gpuTarget struct {
	device.Device
	d      *fake.Driver
	lost   bool        // by an injected fault
	opened fake.Driver // a copy taken after opening, which makes calls too
}

func newGPU(t *testing.T) func() target {
	return func() target {
		d := fake.New()
		d.Kind = gpu.Software // small workgroups, because the interpreter pays for every lane
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

// left is 0, because pipelines, pooled buffers and their bind groups are kept for later plans; see shut.
func (g *gpuTarget) left() int { return 0 }

// shut counts no buffers, which the engine's pool owns, and does not close a lost device.
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
