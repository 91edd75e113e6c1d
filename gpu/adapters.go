package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/torchlette/torchlette/ir"
)

// Options choose an adapter and configure its device. The zero value takes the best GPU that is no software adapter.
type Options struct {
	// Adapter names an adapter: its number in [Adapters], or a part of its name. A software adapter is taken when it is
	// named.
	Adapter string
	// AllowSoftware allows a software adapter where there is no GPU.
	AllowSoftware bool
	// Number is N in the device's name "wgpu:N".
	Number int
	// Hardware gives a software adapter the programs of a GPU, so that tests can run them.
	Hardware bool
	// Core uses no optional feature.
	Core bool
	// MaxStorageBuffers and MaxBinding lower the adapter's limits where they are not 0.
	MaxStorageBuffers int
	MaxBinding        int64
	// Merge is the number of like steps that may share a dispatch. 0: a default; 1 on software adapters, where
	// compiling a new text costs more than a dispatch.
	Merge int
	// WaitTimeout bounds every wait inside Upload, Read, Run and TakeFault; a device that takes longer counts as lost.
	// 0: two minutes.
	WaitTimeout time.Duration
	// CacheDir is where results of the accuracy probe and of timed tiles are kept. "": a folder in the user's cache
	// directory; "-": nothing is kept.
	CacheDir string
	// Autotune opens the device with [Device.SetAutotune] on.
	Autotune bool
	// Warn receives warnings; nil: standard error.
	Warn func(text string)
	// Now replaces the clock that times tiles where the device has no timestamps. For tests.
	Now func() time.Time
	// Part is the number of dispatches of a submission. For tests. 0: 16 in a run's first submission and 64 in the
	// others.
	Part int
	// NoProbe leaves out the accuracy probe. For tests that count calls.
	NoProbe bool
}

// Adapters lists the driver's adapters, the preferred one first. It is the first call that loads a graphics driver.
func Adapters(d Driver) ([]AdapterInfo, error) {
	list, err := d.Adapters()
	if err != nil {
		return nil, ir.Errorf(ir.ErrRuntime, "gpu: adapters cannot be listed: %v", err)
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b AdapterInfo) int { return int(a.Kind) - int(b.Kind) })
	return list, nil
}

// Description is an adapter with the features and limits that a device of it has.
type Description struct {
	AdapterInfo
	Features []string
	Limits   map[string]int64
}

// Describe lists the adapters. It opens each for a moment; one that cannot be opened has no features and limits.
func Describe(d Driver) ([]Description, error) {
	list, err := Adapters(d)
	if err != nil {
		return nil, err
	}
	out := make([]Description, len(list))
	for i, a := range list {
		out[i].AdapterInfo = a
		ctx, err := d.Open(a.Index, false)
		if err != nil {
			continue
		}
		l := ctx.Limits()
		out[i].Features, out[i].Limits = ctx.Features().Names, limitMap(&l)
		ctx.Close()
	}
	return out, nil
}

// Pick chooses from the sorted list as o says.
func Pick(list []AdapterInfo, o *Options) (AdapterInfo, error) {
	if o.Adapter != "" {
		if n, err := strconv.Atoi(o.Adapter); err == nil {
			if n < 0 || n >= len(list) {
				return AdapterInfo{}, ir.Errorf(ir.ErrRuntime, "gpu: no such adapter: got %d, want less than %d", n, len(list))
			}
			return list[n], nil
		}
		for _, a := range list {
			if strings.Contains(strings.ToLower(a.Name+" "+a.Driver), strings.ToLower(o.Adapter)) {
				return a, nil
			}
		}
		return AdapterInfo{}, ir.Errorf(ir.ErrRuntime, "gpu: no adapter is named %q: got %s", o.Adapter, adapterNames(list))
	}
	for _, a := range list {
		if a.Kind != Software || o.AllowSoftware {
			return a, nil
		}
	}
	return AdapterInfo{}, ir.Errorf(ir.ErrRuntime, "gpu: no GPU was found: got %s", adapterNames(list))
}

func adapterNames(list []AdapterInfo) string {
	if len(list) == 0 {
		return "no adapters"
	}
	names := make([]string, len(list))
	for i, a := range list {
		names[i] = fmt.Sprintf("%q (%s)", a.Name, a.Kind)
	}
	return strings.Join(names, ", ")
}
