package gpu

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"os"

	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/loopir"
	"github.com/torchlette/torchlette/kernels/wgsl"
)

// probeVersion changes when the probe measures something else.
const probeVersion = 3

const probePoints = 512

// probeCase is one function as the device computes it, over a range of arguments.
type probeCase struct {
	fn         wgsl.Func
	lo, hi     float64 // of the first argument
	lo2, hi2   float64 // of the second
	rtol, atol float64
	build      func(b *loopir.Builder, x, y int) int
	want       func(x, y float64) float64
}

// probeCases have half the tolerance of a comparison at float32's default (rtol 1.3e-6, atol 1e-5). sqrt and division
// are correctly rounded in PyTorch and may be off by 2.5 ulp here, WGSL's bound for division.
var probeCases = []probeCase{
	{wgsl.FuncSin, -100, 100, 0, 0, 6e-7, 2e-6, ofOne(loopir.OpSin), func(x, _ float64) float64 { return math.Sin(x) }},
	{wgsl.FuncCos, -100, 100, 0, 0, 6e-7, 2e-6, ofOne(loopir.OpCos), func(x, _ float64) float64 { return math.Cos(x) }},
	{wgsl.FuncExp, -80, 80, 0, 0, 6e-7, 0, ofOne(loopir.OpExp), func(x, _ float64) float64 { return math.Exp(x) }},
	{wgsl.FuncLog, 1e-3, 4, 0, 0, 6e-7, 3e-7, ofOne(loopir.OpLog), func(x, _ float64) float64 { return math.Log(x) }},
	// Some drivers give NaN for large arguments.
	{wgsl.FuncTanh, -100, 100, 0, 0, 6e-7, 3e-7, ofOne(loopir.OpTanh), func(x, _ float64) float64 { return math.Tanh(x) }},
	{wgsl.FuncPow, 0.05, 20, -4, 4, 6e-7, 0, ofTwo(loopir.OpPow), math.Pow},
	{wgsl.FuncSqrt, 0, 1e4, 0, 0, 3e-7, 0, ofOne(loopir.OpSqrt), func(x, _ float64) float64 { return math.Sqrt(x) }},
	{wgsl.FuncDiv, -1e3, 1e3, 0.1, 1e3, 3e-7, 0, ofTwo(loopir.OpDiv), func(x, y float64) float64 { return x / y }},
}

func ofOne(op loopir.Op) func(b *loopir.Builder, x, y int) int {
	return func(b *loopir.Builder, x, _ int) int { return b.Un(op, x) }
}

func ofTwo(op loopir.Op) func(b *loopir.Builder, x, y int) int {
	return func(b *loopir.Builder, x, y int) int { return b.Bin(op, x, y) }
}

// argument is point i of a range. Its low bits are irregular on purpose.
func argument(lo, hi float64, i, step int) float32 {
	return float32(lo + (hi-lo)*float64(i*step%probePoints)/(probePoints-1))
}

// probeAccuracy finds the functions that this device computes too coarsely. The text of kernels then uses our own
// formulas for them. The answer is kept in the user's cache directory, by driver.
func (d *Device) probeAccuracy() error {
	if d.opts.NoProbe {
		return nil
	}
	path := d.probePath()
	r, ok := readProbe(path)
	if !ok {
		var err error
		r.Version = probeVersion
		if r.Poly, err = d.accuracy(); err != nil {
			return err
		}
		if d.feat.I64 {
			if r.NarrowInts, err = d.comparesWrong(); err != nil {
				return err
			}
		}
		if r.Subgroup, err = d.subgroupSize(); err != nil {
			return err
		}
		writeProbe(path, r)
		// Kernels are cached by variant, and the probe's were printed with other options.
		clear(d.kernels)
	}
	if r.NarrowInts {
		d.feat.I64 = false
		d.describe()
	}
	d.wgsl.Poly, d.tile.Subgroup, d.caps.SubgroupSize = r.Poly, r.Subgroup, r.Subgroup
	return nil
}

// subgroupSize finds how many threads shuffle among themselves, which the driver does not tell: the largest power of
// two with which sums of rows are right. Where compilers choose a size for each program (Intel, AMD) the answer for one
// program says nothing of another, and the result is 0.
func (d *Device) subgroupSize() (int, error) {
	const nvidia = 0x10DE
	if d.tile.Subgroup != 0 || !d.feat.Subgroups {
		return d.tile.Subgroup, nil
	}
	if d.adapter.VendorID != nvidia && d.adapter.Backend != "metal" && d.adapter.Kind != Software {
		return 0, nil
	}
	for size := 64; size >= 8; size /= 2 {
		d.tile.Subgroup = size
		right, err := d.sumsRight(1100, 16*size)
		clear(d.kernels)
		switch {
		case d.lost != nil:
			return 0, err
		case err == nil && right: // a driver that refuses the text has no shuffles
			return size, nil
		}
	}
	return 0, nil
}

// sumsRight reports that the sums of m rows of n integers are right.
func (d *Device) sumsRight(m, n int) (bool, error) {
	b := loopir.NewBuilder("subgroup_probe", 1, 1)
	x := b.Load(b.Linear(b.Buf(ir.I32, loopir.Read), -1))
	out := b.Linear(b.Buf(ir.I32, loopir.Write), -1)
	b.Each()
	sum := b.Reduce(loopir.Sum, x)
	b.Map()
	b.Store(out, b.Acc(sum))
	k := b.Kernel()
	k.NoVec = true // so that a row takes more threads than a subgroup has
	values, got := make([]int32, m*n), make([]int32, m)
	for i := range values {
		values[i] = int32(i*i + i>>4)
	}
	err := d.once(device.Step{Op: k, Bufs: []int{0, 1}, Params: []device.Param{device.Const(int64(m)),
		device.Const(int64(n))}}, ir.I32, intBytes(got), intBytes(values), intBytes(make([]int32, m)))
	if err != nil {
		return false, err
	}
	for i := range got {
		want := int32(0)
		for _, v := range values[i*n : (i+1)*n] {
			want += v
		}
		if got[i] != want {
			return false, nil
		}
	}
	return true, nil
}

// comparesWrong reports that 64-bit integers cannot be used: Mesa 22.3 compares a widened 32-bit integer with a
// constant wrongly.
func (d *Device) comparesWrong() (bool, error) {
	b := loopir.NewBuilder("int64_probe", 1, 0)
	in, out := b.Buf(ir.I32, loopir.Read), b.Buf(ir.I32, loopir.Write)
	x := b.Cast(ir.I64, b.Load(b.Linear(in, -1)))
	wide := b.Add(x, b.I64(1<<40))
	b.Map()
	bit := func(c int, v int64) int { return b.Select(c, b.Int(ir.I32, v), b.Int(ir.I32, 0)) }
	sum := b.Add(bit(b.Lt(x, b.I64(4)), 1), bit(b.Lt(b.I64(-5), x), 2))
	sum = b.Add(sum, b.Add(bit(b.Eq(x, b.I64(-5)), 4), bit(b.Lt(wide, b.I64(1<<40)), 8)))
	b.Store(b.Linear(out, -1), sum)
	values := []int32{-18, -5, -4, 0, 3, 4, 1 << 30, -1 << 31}
	got := make([]int32, len(values))
	err := d.once(device.Step{Op: b.Kernel(), Bufs: []int{0, 1}, Params: []device.Param{device.Const(int64(len(values)))}},
		ir.I32, intBytes(got), intBytes(values), intBytes(make([]int32, len(values))))
	if err != nil {
		return false, err
	}
	for i, v := range values {
		want := int32(0)
		for _, c := range []struct {
			holds bool
			bit   int32
		}{{v < 4, 1}, {v > -5, 2}, {v == -5, 4}, {v < 0, 8}} {
			if c.holds {
				want |= c.bit
			}
		}
		if got[i] != want {
			return true, nil
		}
	}
	return false, nil
}

// accuracy finds the functions that need our own formulas. Our exp uses the device's exp2, unless a second measurement
// shows that exp2 is too coarse.
func (d *Device) accuracy() (wgsl.Func, error) {
	defer func(kept wgsl.Func) { d.wgsl.Poly = kept }(d.wgsl.Poly)
	d.wgsl.Poly = 0
	poly, err := d.measure()
	if err != nil {
		return 0, err
	}
	clear(d.kernels)
	d.wgsl.Poly = wgsl.FuncExp
	again, err := d.measure()
	if again&wgsl.FuncExp != 0 {
		poly |= wgsl.FuncExp2
	}
	return poly, err
}

// measure runs every case in one kernel.
func (d *Device) measure() (wgsl.Func, error) {
	b := loopir.NewBuilder("accuracy_probe", 1, 0)
	xs, ys, out := b.Buf(ir.F32, loopir.Read), b.Buf(ir.F32, loopir.Read), b.Buf(ir.F32, loopir.Write)
	st := device.Step{Bufs: []int{0, 1, 2}, Params: []device.Param{device.Const(probePoints)}}
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
	st.Op = b.Kernel()
	got := make([]float32, len(hostX))
	if err := d.once(st, ir.F32, floatBytes(got), floatBytes(hostX), floatBytes(hostY),
		floatBytes(make([]float32, len(hostX)))); err != nil {
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

// once runs st over buffers with the given contents and reads the last one into dst.
func (d *Device) once(st device.Step, t ir.DType, dst []byte, contents ...[]byte) error {
	var bufs []device.Buffer
	defer func() {
		for _, b := range bufs {
			d.Free(b)
		}
	}()
	for _, host := range contents {
		b, err := d.Alloc(int64(len(host)))
		if err != nil {
			return err
		}
		bufs = append(bufs, b)
		if err := d.Upload(b, t, 0, host); err != nil {
			return err
		}
	}
	p, err := d.Build([]device.Step{st}, len(bufs))
	if err != nil {
		return err
	}
	defer p.Release()
	if _, err := d.Run(p, &device.Binding{Bufs: bufs}); err != nil {
		return err
	}
	return d.Read(bufs[len(bufs)-1], t, 0, dst)
}

// probePath is the cache file of this driver and adapter; "" where none is kept.
func (d *Device) probePath() string {
	h := fnv.New64a()
	fmt.Fprintf(h, "%d|%s", probeVersion, d.identity())
	return d.cachePath(fmt.Sprintf("probe-%016x.json", h.Sum64()))
}

// probeFile is the content of the cache file.
type probeFile struct {
	Version    int       `json:"version"`
	Poly       wgsl.Func `json:"poly"`
	NarrowInts bool      `json:"narrow_ints"`
	Subgroup   int       `json:"subgroup"`
}

func readProbe(path string) (f probeFile, ok bool) {
	if path == "" {
		return f, false
	}
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &f) != nil || f.Version != probeVersion {
		return probeFile{}, false
	}
	return f, true
}

// writeProbe keeps the answer. A cache that cannot be written is no error: the probe runs again next time.
func writeProbe(path string, f probeFile) {
	data, err := json.Marshal(f)
	if path != "" && err == nil {
		_ = keepFile(path, data)
	}
}
