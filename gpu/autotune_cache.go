package gpu

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math"
	"os"
	"time"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/launch"
)

// The tiles of products come from a table of estimates (gpucode.ChooseGemm). With Options.Autotune, the first product
// of a class that a device meets is instead timed in several tiles, on scratch memory. The fastest is kept: for
// programs built later, and in a file for later processes.

// autotuner is the state of the choices.
type autotuner struct {
	on    bool
	trial *gpucode.GemmTile // the choice while a program is built to be timed
	// tiles are the choices of this process by class; kept are the choices in the file when it was read.
	tiles  map[string]gpucode.GemmTile
	kept   map[string]TunedTile
	device string // key of this device in the file
	silent bool   // the warning that the file cannot be written was given
}

// TunedTile is the choice for a class of products, with the measured times of a launch.
type TunedTile struct {
	Tile              gpucode.GemmTile `json:"tile"`
	Microseconds      float64          `json:"us"`
	Table             gpucode.GemmTile `json:"table"` // the choice of the estimates
	TableMicroseconds float64          `json:"table_us"`
}

// tunedFile is the content of the file: choices by device, and for each device by class of products.
type tunedFile struct {
	Version int                             `json:"version"`
	Devices map[string]map[string]TunedTile `json:"devices"`
}

const (
	tunedVersion = 1
	tunedName    = "tiles.json"
)

// SetAutotune decides whether programs built from now on have timed tiles or those of the table.
func (d *Device) SetAutotune(on bool) { d.tune.on = on }

// chooseGemm returns the options of g launched with params.
func (d *Device) chooseGemm(g *launch.Gemm, params []uint64) gpucode.GemmOptions {
	t := &d.tune
	switch {
	case t.trial != nil:
		if o, ok := t.trial.Options(g, params, d.tile); ok {
			return o
		}
	case t.on:
		if o, ok := d.tuned(g, params).Options(g, params, d.tile); ok {
			return o
		}
	}
	return gpucode.ChooseGemm(g, params, d.tile)
}

// tuned is the tile of g's class: chosen by this process or an earlier one, or now by timing. The zero tile stands for
// the table's choice: there is one candidate, or no memory for its operands, or the device failed.
func (d *Device) tuned(g *launch.Gemm, params []uint64) gpucode.GemmTile {
	t := &d.tune
	class := gpucode.GemmClass(g, params)
	if kept, ok := t.tiles[class]; ok {
		return kept
	}
	trials := gpucode.GemmTrials(g, params, d.tile)
	if t.tiles == nil {
		t.tiles = map[string]gpucode.GemmTile{}
	}
	if t.tiles[class] = (gpucode.GemmTile{}); len(trials) < 2 {
		return t.tiles[class]
	}
	if t.kept == nil {
		t.device = d.tunedDevice()
		t.kept = map[string]TunedTile{}
		maps.Copy(t.kept, d.readTuned(true).Devices[t.device])
	}
	if k, ok := t.kept[class]; ok {
		if _, ok := k.Tile.Options(g, params, d.tile); ok {
			d.stats.tunedFound++
			t.tiles[class] = k.Tile
			return k.Tile
		}
	}
	times, err := d.timeCandidates(g, params, trials)
	if err != nil {
		return t.tiles[class]
	}
	best := fastest(times)
	d.stats.tunedTimed++
	t.tiles[class] = trials[best]
	t.kept[class] = TunedTile{Tile: trials[best], Microseconds: microseconds(times[best]), Table: trials[0],
		TableMicroseconds: microseconds(times[0])}
	d.writeTuned()
	return trials[best]
}

// microseconds rounds to the nanosecond.
func microseconds(seconds float64) float64 { return math.Round(seconds*1e9) / 1e3 }

// Tuned lists the choices made or read so far for products on this device, by class; see [gpucode.GemmClass].
func (d *Device) Tuned() map[string]TunedTile {
	out := map[string]TunedTile{}
	for class := range d.tune.tiles {
		if k, ok := d.tune.kept[class]; ok {
			out[class] = k
		}
	}
	return out
}

// tunedDevice is this device's key in the file: adapter, driver, and a hash of the list of tiles and of the text of
// some products, which changes when the generator changes.
func (d *Device) tunedDevice() string {
	h := fnv.New32a()
	fmt.Fprint(h, gpucode.GemmTiles(d.tile))
	for _, g := range []*launch.Gemm{{Type: ir.F32, AUnit: 'k', BUnit: 'n'}, {Type: ir.F32, AUnit: 'm', BUnit: 'k',
		Sums: 'b'},
		{Type: ir.F32, AUnit: 'k', BUnit: 'n', CStrided: true, KDims: 1, NDims: 1}} {
		params := make([]uint64, len(g.Layout().Params))
		for i := range params {
			params[i] = 256
		}
		procs, _ := gpucode.FromGemm(g, gpucode.ChooseGemm(g, params, d.tile))
		for _, p := range procs {
			if m, err := d.print(p.Name, p); err == nil {
				_, _ = h.Write([]byte(m.Text))
			}
		}
	}
	return fmt.Sprintf("%s|generator %08x", d.identity(), h.Sum32())
}

// readTuned reads the file. A missing file, or one of another version, counts as empty. So does a broken one; with
// tell, the user is warned about it.
func (d *Device) readTuned(tell bool) (f tunedFile) {
	path := d.cachePath(tunedName)
	if path == "" {
		return f
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &f)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && tell {
		d.warn(fmt.Sprintf("autotuned tiles are timed anew, since %s cannot be read: %v", path, err))
	}
	if err != nil || f.Version != tunedVersion {
		return tunedFile{}
	}
	return f
}

// writeTuned adds this device's choices to the file as it is now, since other processes write it too. Of two processes
// that write at once the later wins; a later process times the lost choices again.
func (d *Device) writeTuned() {
	path := d.cachePath(tunedName)
	if path == "" {
		return
	}
	f := d.readTuned(false)
	f.Version = tunedVersion
	if f.Devices == nil {
		f.Devices = map[string]map[string]TunedTile{}
	}
	if f.Devices[d.tune.device] == nil {
		f.Devices[d.tune.device] = map[string]TunedTile{}
	}
	maps.Copy(f.Devices[d.tune.device], d.tune.kept)
	data, err := json.MarshalIndent(f, "", " ")
	if err == nil {
		err = keepFile(path, data)
	}
	if err != nil && !d.tune.silent {
		d.tune.silent = true
		d.warn(fmt.Sprintf("autotuned tiles are not kept, since %s cannot be written: %v", path, err))
	}
}

func (d *Device) warn(text string) {
	if d.opts.Warn != nil {
		d.opts.Warn(text)
		return
	}
	fmt.Fprintln(os.Stderr, "torchlette: "+text)
}

func (d *Device) now() time.Time {
	if d.opts.Now != nil {
		return d.opts.Now()
	}
	return time.Now()
}
