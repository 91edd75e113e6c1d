package gpu_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/fake"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/launch"
)

// matrices is [product] with A at a run-time offset.
func matrices(m, n, k int) device.Step {
	st := product(m, n, k)
	st.Params[5].From = device.Offset
	return st
}

// The product that the tests time, and its class. Its rows are no multiple of 128, so that a tile and its transpose
// cover it with different numbers of tiles.
const (
	sizeM, sizeN, sizeK = 448, 512, 1024
	class               = "float32 nn 448x512x1024"
)

// wins makes the dispatches of tile t of that product the fastest.
func wins(t gpucode.GemmTile) func(*gpu.Shader, uint64) uint64 {
	threads := t.BM / t.WM * (t.BN / t.WN) * 32
	groups := uint64((sizeM + t.BM - 1) / t.BM * (sizeN / t.BN) * t.Parts)
	shared := (t.BM + 4 + t.BN + 4) * t.BK * 4 * 2
	return func(s *gpu.Shader, g uint64) uint64 {
		switch {
		case s.Proc.Workgroup == threads && s.Module.SharedBytes == shared && g == groups:
			return 50_000
		case s.Proc.Workgroup == 64 && g == 2*sizeM: // the second pass of parts, 256 columns a workgroup
			return 1
		}
		return 70_000 + g
	}
}

// tuning opens a device that times tiles and keeps them in dir.
func tuning(t *testing.T, dir string, d *fake.Driver, o gpu.Options) *gpu.Device {
	t.Helper()
	d.Idle = true
	d.Limits.MaxWorkgroupBytes, d.Limits.MaxWorkgroupSize, d.Limits.MaxWorkgroupX = 48<<10, 1024, 1024
	o.Autotune, o.CacheDir = true, dir
	return open(t, d, o)
}

func build(t *testing.T, dev *gpu.Device, st device.Step) {
	t.Helper()
	p, err := dev.Build([]device.Step{st}, len(st.Bufs))
	require.NoError(t, err)
	p.Release()
}

func trials(t *testing.T) []gpucode.GemmTile {
	t.Helper()
	st := matrices(sizeM, sizeN, sizeK)
	params := make([]uint64, len(st.Params))
	for i, p := range st.Params {
		params[i] = p.Bits
	}
	caps := gpucode.Caps{MaxWorkgroupBytes: 48 << 10, MaxThreads: 1024, Units: 264, MaxBuffers: 16, Subgroup: 32,
		I64: true}
	require.Equal(t, class, gpucode.GemmClass(st.Op.(*launch.Gemm), params))
	return gpucode.GemmTrials(st.Op.(*launch.Gemm), params, caps)
}

// TestTheFastestTileIsChosen: programs are built with the trial that takes the least time on the device's clock, with
// timestamps and without.
func TestTheFastestTileIsChosen(t *testing.T) {
	list := trials(t)
	require.Greater(t, len(list), 5)
	for _, stamps := range []bool{true, false} {
		for i, want := range list {
			t.Run(want.String(), func(t *testing.T) {
				d := fake.New()
				d.Features.Timestamps = stamps
				d.Ticks = wins(want)
				dev := tuning(t, t.TempDir(), d, gpu.Options{Now: func() time.Time { return time.Unix(0, int64(d.Clock)) }})
				live := d.Live
				build(t, dev, matrices(sizeM, sizeN, sizeK))
				got := dev.Tuned()[class]
				assert.Equal(t, want, got.Tile)
				assert.InDelta(t, 50, got.Microseconds, 0.01)
				assert.Equal(t, list[0], got.Table)
				if i > 0 {
					assert.Greater(t, got.TableMicroseconds, 69.0)
				}
				assert.EqualValues(t, 1, dev.Stats()["autotune_timed"])
				passes := 1
				if want.Parts > 1 {
					passes, live.Buffers = 2, live.Buffers+1 // scratch memory
				}
				assert.Equal(t, live.Pipelines+passes, d.Live.Pipelines, "those of the others are released")
				assert.Equal(t, passes, int(dev.Stats()["pipelines"]))
				made := d.Calls.Pipeline
				build(t, dev, matrices(sizeM-1, sizeN-20, sizeK-20))
				assert.EqualValues(t, 1, dev.Stats()["autotune_timed"], "they are other sizes of the class")
				assert.LessOrEqual(t, d.Calls.Pipeline, made+passes, "but for rows, columns and depths that no vector divides")
			})
		}
	}
}

// TestTheLeastMedianCounts: one sample that was short by chance does not decide the choice.
func TestTheLeastMedianCounts(t *testing.T) {
	list := trials(t)
	lucky, steady := wins(list[2]), wins(list[4])
	calls := 0
	d := fake.New()
	d.Ticks = func(s *gpu.Shader, groups uint64) uint64 {
		if lucky(s, groups) != 50_000 {
			return steady(s, groups)
		}
		if calls++; calls > 2 && calls < 7 { // the first sample that counts, or most of it
			return 1
		}
		return 60_000
	}
	dev := tuning(t, "-", d, gpu.Options{})
	build(t, dev, matrices(sizeM, sizeN, sizeK))
	assert.Greater(t, calls, 10)
	assert.Equal(t, list[4], dev.Tuned()[class].Tile)
}

// Where a launch of the table's tile takes a quarter of a second, no other tile is launched.
func TestALongProductIsNotTimed(t *testing.T) {
	d := fake.New()
	seen := map[string]int{}
	d.Ticks = func(s *gpu.Shader, _ uint64) uint64 {
		seen[s.Text]++
		return 300_000_000
	}
	dev := tuning(t, "-", d, gpu.Options{})
	build(t, dev, matrices(sizeM, sizeN, sizeK))
	assert.Equal(t, trials(t)[0], dev.Tuned()[class].Tile)
	for _, n := range seen {
		assert.Equal(t, 2, n)
	}
	assert.LessOrEqual(t, len(seen), 2, "passes of one tile")
}

// runs builds the product on a new device and returns that device's counters and warnings.
func runs(t *testing.T, dir string, d *fake.Driver, o gpu.Options) (stats map[string]int64, warnings []string) {
	t.Helper()
	o.Warn = func(text string) { warnings = append(warnings, text) }
	dev := tuning(t, dir, d, o)
	build(t, dev, matrices(sizeM, sizeN, sizeK))
	return dev.Stats(), warnings
}

// TestTilesAreKept: what one device timed is found by a second one of the same adapter and driver, and by no other.
func TestTilesAreKept(t *testing.T) {
	want := trials(t)[3]
	for _, c := range []struct {
		name          string
		between       func(t *testing.T, file string)
		driver        string
		o             gpu.Options
		timed, warned int
	}{
		{name: "the same driver"},
		{name: "another driver", driver: "newer", timed: 1},
		{name: "core features only", o: gpu.Options{Core: true}, timed: 1},
		{name: "no file", between: func(t *testing.T, file string) { require.NoError(t, os.Remove(file)) }, timed: 1},
		{name: "a broken file", between: func(t *testing.T, file string) {
			require.NoError(t, os.WriteFile(file, []byte(`{"version":1,"dev`), 0o600))
		}, timed: 1, warned: 1},
		{name: "numbers that are none", between: edit(`"parts": `, `"parts": "x`, `,`, `",`), timed: 1, warned: 1},
		{name: "another version", between: edit(`"version": 1`, `"version": 2`), timed: 1},
		{name: "another generator", between: edit(`generator `, `generator 0`), timed: 1},
		{name: "a tile of no threads", between: edit(`"wm": `, `"wm": 7`), timed: 1},
		{name: "a tile that asks for too much", between: edit(`"bk": `, `"bk": 64`), timed: 1},
		{name: "as many parts as the depth has not", between: edit(`"parts": `, `"parts": 9`)},
		{name: "a folder in its place", between: func(t *testing.T, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.MkdirAll(filepath.Join(file, "x"), 0o700))
		}, timed: 1, warned: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "tiles.json")
			d := fake.New()
			d.Ticks = wins(want)
			first, _ := runs(t, dir, d, gpu.Options{})
			assert.EqualValues(t, 1, first["autotune_timed"])
			assert.Zero(t, first["autotune_found"])
			if c.between != nil {
				c.between(t, file)
			}
			d = fake.New()
			d.Version = c.driver
			d.Ticks = wins(want)
			second, warnings := runs(t, dir, d, c.o)
			assert.EqualValues(t, c.timed, second["autotune_timed"])
			assert.EqualValues(t, 1-c.timed, second["autotune_found"])
			require.Len(t, warnings, c.warned)
			for _, w := range warnings {
				assert.Contains(t, w, file)
			}
			if c.warned == 2 {
				return // the folder cannot be replaced
			}
			third, _ := runs(t, dir, d, c.o)
			assert.Zero(t, third["autotune_timed"], "the file is whole again")
			list, err := os.ReadDir(dir)
			require.NoError(t, err)
			assert.Len(t, list, 1, "nothing else is left there")
		})
	}
}

// edit replaces texts of a file one after the other.
func edit(pairs ...string) func(*testing.T, string) {
	return func(t *testing.T, file string) {
		t.Helper()
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		text := strings.NewReplacer(pairs...).Replace(string(data))
		require.NotEqual(t, string(data), text)
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
}

// TestTwoProcessesAddToTheFile: a device that read the file before another wrote it does not lose the other's tiles.
func TestTwoProcessesAddToTheFile(t *testing.T) {
	dir := t.TempDir()
	one, other := tuning(t, dir, fake.New(), gpu.Options{}), tuning(t, dir, fake.New(), gpu.Options{})
	for i, size := range []int{256, 512, 640, 768} {
		build(t, []*gpu.Device{one, other}[i%2], matrices(size, size, size))
	}
	data, err := os.ReadFile(filepath.Join(dir, "tiles.json"))
	require.NoError(t, err)
	var f struct {
		Devices map[string]map[string]gpu.TunedTile
	}
	require.NoError(t, json.Unmarshal(data, &f))
	require.Len(t, f.Devices, 1)
	for _, classes := range f.Devices {
		assert.Len(t, classes, 4)
	}
}

// TestTheFileIsAlwaysWhole: while several devices time tiles at once, a reader never finds a broken file.
func TestTheFileIsAlwaysWhole(t *testing.T) {
	dir := t.TempDir()
	var group sync.WaitGroup
	for i := range 4 {
		dev := tuning(t, dir, fake.New(), gpu.Options{Warn: func(text string) { t.Error(text) }})
		group.Go(func() {
			for j := range 5 {
				st := matrices(64*(i+1), 64*(j+1), 64)
				p, err := dev.Build([]device.Step{st}, 3)
				if assert.NoError(t, err) {
					p.Release()
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	for {
		data, err := os.ReadFile(filepath.Join(dir, "tiles.json"))
		if err == nil {
			require.True(t, json.Valid(data), "%s", data)
		}
		select {
		case <-done:
			require.NoError(t, err)
			list, err := os.ReadDir(dir)
			require.NoError(t, err)
			assert.Len(t, list, 1)
			return
		default:
		}
	}
}

// TestNothingIsTimedUnlessAsked: without the option no file is read or written, and the tile is the table's. Programs
// built while the option is on have timed tiles.
func TestNothingIsTimedUnlessAsked(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "tiles.json")
	require.NoError(t, os.WriteFile(file, []byte("broken"), 0o600))
	d := fake.New()
	d.Idle = true
	dev := open(t, d, gpu.Options{CacheDir: dir, Warn: func(text string) { t.Error(text) }})
	build(t, dev, matrices(512, 512, 512))
	assert.Zero(t, dev.Stats()["autotune_timed"])
	assert.Empty(t, dev.Tuned())
	require.NoError(t, os.Remove(file))
	dev.SetAutotune(true)
	build(t, dev, matrices(512, 512, 512))
	assert.EqualValues(t, 1, dev.Stats()["autotune_timed"])
	dev.SetAutotune(false)
	build(t, dev, matrices(768, 768, 768))
	assert.EqualValues(t, 1, dev.Stats()["autotune_timed"])
	assert.FileExists(t, file)
}

// TestWhatCannotBeTimedHasTheTablesTile: products without a choice, products larger than the scratch memory, and a
// device that refuses memory or programs while it times.
func TestWhatCannotBeTimedHasTheTablesTile(t *testing.T) {
	integers := matrices(64, 64, 64)
	integers.Op = &launch.Gemm{Type: ir.I64, AUnit: 'k', BUnit: 'n'}
	for _, c := range []struct {
		name   string
		st     device.Step
		inject func(*fake.Driver)
		timed  int64
	}{
		{"64-bit integers", integers, nil, 0},
		{"little work", matrices(40, 40, 40), nil, 0},
		{"more than a binding shows", matrices(64, 1<<20, 64), nil, 0},
		{"no memory", matrices(512, 512, 512), func(d *fake.Driver) { d.Faults.Alloc = d.Calls.Alloc + 3 }, 0},
		{"no submission", matrices(512, 512, 512), func(d *fake.Driver) { d.Faults.Submit = d.Calls.Submit + 4 }, 0},
		{"one program refused", matrices(512, 512, 512), func(d *fake.Driver) { d.Faults.Pipeline = d.Calls.Pipeline + 3 },
			1},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := fake.New()
			dev := tuning(t, t.TempDir(), d, gpu.Options{})
			live := d.Live
			if c.inject != nil {
				c.inject(d)
			}
			build(t, dev, c.st)
			assert.Equal(t, c.timed, dev.Stats()["autotune_timed"])
			assert.Equal(t, live.BindGroups, d.Live.BindGroups)
			before := d.Calls.Submit
			build(t, dev, c.st)
			assert.Equal(t, before, d.Calls.Submit, "it is not tried again")
		})
	}
}

// TestTunedProductsAreRight: products in the chosen tiles equal the interpreter's, at aligned and other offsets.
func TestTunedProductsAreRight(t *testing.T) {
	const m, n, k = 48, 44, 32
	for i := range 3 {
		d := fake.New()
		d.Kind = gpu.Software // small workgroups: the interpreter pays for every lane
		calls := 0
		d.Ticks = func(s *gpu.Shader, groups uint64) uint64 { // one tile after the other is the fastest
			calls++
			return uint64(10_000_000 + 70_000*((int(groups)*s.Proc.Workgroup+i*371)%1000))
		}
		dev := open(t, d, gpu.Options{Autotune: true, CacheDir: "-"})
		st := matrices(m, n, k)
		bufs := make([]device.Buffer, 3)
		for j, size := range []int{m*k + 4, k * n, m * n} {
			bufs[j] = zeros(t, dev, size)
			data := make([]byte, 4*size)
			for e := range size {
				binary.LittleEndian.PutUint32(data[4*e:], math.Float32bits(float32(e%7)-3))
			}
			require.NoError(t, dev.Upload(bufs[j], ir.F32, 0, data))
		}
		p, err := dev.Build([]device.Step{st}, 3)
		require.NoError(t, err)
		assert.EqualValues(t, 1, dev.Stats()["autotune_timed"])
		assert.Positive(t, calls)
		for _, offset := range []int64{0, 3, 4} {
			_, err = dev.Run(p, &device.Binding{Bufs: bufs, Offsets: []int64{offset}})
			require.NoError(t, err)
			got := make([]byte, 4*m*n)
			require.NoError(t, dev.Read(bufs[2], ir.F32, 0, got))
			for r := range m {
				for c := range n {
					sum := float32(0)
					for e := range k {
						sum += (float32((int(offset)+r*k+e)%7) - 3) * (float32((e*n+c)%7) - 3)
					}
					require.Equal(t, sum, math.Float32frombits(binary.LittleEndian.Uint32(got[4*(r*n+c):])), "%d, %d at %d", r, c,
						offset)
				}
			}
		}
	}
}
