package gpu

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"os"
	"path/filepath"

	"github.com/torchlette/torchlette/engine/device"
	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/kernels/kir"
	"github.com/torchlette/torchlette/kernels/wgsl"
)

// probeVersion changes when what the probe measures does.
const probeVersion = 1

const probePoints = 512

// probeCase is one function as the device computes it, over a range of arguments.
type probeCase struct {
	fn         wgsl.Func
	lo, hi     float64 // of the first argument
	lo2, hi2   float64 // of the second
	rtol, atol float64
	build      func(b *kir.Builder, x, y int) int
	want       func(x, y float64) float64
}

// The tolerances are half of what a comparison at float32's default tolerance
// (rtol 1.3e-6, atol 1e-5) allows; sqrt and division are correctly rounded in
// PyTorch and may be off by 2.5 ulp here, as WGSL says of division.
var probeCases = []probeCase{
	{wgsl.FuncSin, -100, 100, 0, 0, 6e-7, 2e-6, ofOne(kir.OpSin), func(x, _ float64) float64 { return math.Sin(x) }},
	{wgsl.FuncCos, -100, 100, 0, 0, 6e-7, 2e-6, ofOne(kir.OpCos), func(x, _ float64) float64 { return math.Cos(x) }},
	{wgsl.FuncExp, -80, 80, 0, 0, 6e-7, 0, ofOne(kir.OpExp), func(x, _ float64) float64 { return math.Exp(x) }},
	{wgsl.FuncLog, 1e-3, 4, 0, 0, 6e-7, 3e-7, ofOne(kir.OpLog), func(x, _ float64) float64 { return math.Log(x) }},
	// Some drivers give NaN for large arguments.
	{wgsl.FuncTanh, -100, 100, 0, 0, 6e-7, 3e-7, ofOne(kir.OpTanh), func(x, _ float64) float64 { return math.Tanh(x) }},
	{wgsl.FuncPow, 0.05, 20, -4, 4, 6e-7, 0, ofTwo(kir.OpPow), math.Pow},
	{wgsl.FuncSqrt, 0, 1e4, 0, 0, 3e-7, 0, ofOne(kir.OpSqrt), func(x, _ float64) float64 { return math.Sqrt(x) }},
	{wgsl.FuncDiv, -1e3, 1e3, 0.1, 1e3, 3e-7, 0, ofTwo(kir.OpDiv), func(x, y float64) float64 { return x / y }},
}

func ofOne(op kir.Op) func(b *kir.Builder, x, y int) int {
	return func(b *kir.Builder, x, _ int) int { return b.Un(op, x) }
}

func ofTwo(op kir.Op) func(b *kir.Builder, x, y int) int {
	return func(b *kir.Builder, x, y int) int { return b.Bin(op, x, y) }
}

// argument gives point i of a range; the low bits are irregular on purpose.
func argument(lo, hi float64, i, step int) float32 {
	return float32(lo + (hi-lo)*float64(i*step%probePoints)/(probePoints-1))
}

// probeAccuracy finds the functions that this device computes too coarsely; the
// text of kernels then uses our own formulas for them. The answer is kept in the
// user's cache directory, by driver.
func (d *Device) probeAccuracy() error {
	if d.opts.NoProbe {
		return nil
	}
	path := d.probePath()
	if poly, ok := readProbe(path); ok {
		d.wgsl.Poly = poly
		return nil
	}
	poly, err := d.measure()
	if err != nil {
		return err
	}
	d.wgsl.Poly = poly
	// Kernels are cached by form; the forms of the probe were printed without poly.
	clear(d.kernels)
	writeProbe(path, poly)
	return nil
}

// measure runs every case in one kernel.
func (d *Device) measure() (wgsl.Func, error) {
	b := kir.NewBuilder("accuracy_probe", 1, 0)
	xs, ys, out := b.Buf(ir.F32, kir.Read), b.Buf(ir.F32, kir.Read), b.Buf(ir.F32, kir.Write)
	st := device.Step{Kind: device.RunKernel, Bufs: []int{0, 1, 2}, Params: []device.Param{device.Const(probePoints)}}
	b.Map()
	hostX, hostY := make([]float32, 0, len(probeCases)*probePoints), make([]float32, 0, len(probeCases)*probePoints)
	for i, c := range probeCases {
		off := b.Offset()
		st.Params = append(st.Params, device.Const(int64(i*probePoints)))
		x, y := b.Load(b.Linear(xs, off)), b.Load(b.Linear(ys, off))
		b.Store(b.Linear(out, off), c.build(b, x, y))
		for j := range probePoints {
			hostX = append(hostX, argument(c.lo, c.hi, j, 1))
			hostY = append(hostY, argument(c.lo2, c.hi2, j, 37))
		}
	}
	st.Kernel = b.Kernel()
	got, err := d.runProbe(st, hostX, hostY)
	if err != nil {
		return 0, err
	}
	var poly wgsl.Func
	for i, c := range probeCases {
		for j := range probePoints {
			k := i*probePoints + j
			want := c.want(float64(hostX[k]), float64(hostY[k]))
			if diff := math.Abs(float64(got[k]) - want); !(diff <= c.atol+c.rtol*math.Abs(want)) {
				poly |= c.fn
				break
			}
		}
	}
	return poly, nil
}

func (d *Device) runProbe(st device.Step, x, y []float32) ([]float32, error) {
	var bufs []device.Buffer
	defer func() {
		for _, b := range bufs {
			d.Free(b)
		}
	}()
	out := make([]float32, len(x))
	for _, host := range [][]float32{x, y, out} {
		b, err := d.Alloc(int64(4 * len(host)))
		if err != nil {
			return nil, err
		}
		bufs = append(bufs, b)
		if err := d.Upload(b, ir.F32, 0, floatBytes(host)); err != nil {
			return nil, err
		}
	}
	p, err := d.Build([]device.Step{st}, len(bufs))
	if err != nil {
		return nil, err
	}
	defer p.Release()
	if _, err := d.Run(p, &device.Binding{Bufs: bufs}); err != nil {
		return nil, err
	}
	return out, d.Read(bufs[2], ir.F32, 0, floatBytes(out))
}

// probePath names the cache file of this driver and adapter; "" when none is kept.
func (d *Device) probePath() string {
	dir := d.opts.CacheDir
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(base, "torchlette")
	}
	if dir == "-" {
		return ""
	}
	h := fnv.New64a()
	a := &d.adapter
	fmt.Fprintf(h, "%d|%s|%s|%s|%s|%s|%x:%x|%v", probeVersion, d.driver, a.Name, a.Vendor, a.Driver, a.Backend, a.VendorID, a.DeviceID, d.opts.Core)
	return filepath.Join(dir, fmt.Sprintf("probe-%016x.json", h.Sum64()))
}

type probeFile struct {
	Version int       `json:"version"`
	Poly    wgsl.Func `json:"poly"`
}

func readProbe(path string) (wgsl.Func, bool) {
	if path == "" {
		return 0, false
	}
	data, err := os.ReadFile(path)
	var f probeFile
	if err != nil || json.Unmarshal(data, &f) != nil || f.Version != probeVersion {
		return 0, false
	}
	return f.Poly, true
}

// writeProbe keeps the answer. A cache that cannot be written is no error: the
// probe runs again next time.
func writeProbe(path string, poly wgsl.Func) {
	data, err := json.Marshal(probeFile{probeVersion, poly})
	if path == "" || err != nil || os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), "probe-*")
	if err != nil {
		return
	}
	_, err = tmp.Write(data)
	if cerr := tmp.Close(); err == nil && cerr == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(tmp.Name())
	}
}
