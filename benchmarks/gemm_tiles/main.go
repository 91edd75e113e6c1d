package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/wgpu"
	"github.com/torchlette/torchlette/kernels/kir"
	"github.com/torchlette/torchlette/kernels/tile"
	"github.com/torchlette/torchlette/kernels/wgsl"
)

// trials are the tiles to time.
var trials = []tile.GemmOptions{
	{BM: 128, BN: 128, BK: 8, WM: 64, WN: 64, TM: 16, TN: 8, Double: true},
	{BM: 128, BN: 128, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Double: true},
	{BM: 128, BN: 128, BK: 16, WM: 64, WN: 32, TM: 8, TN: 8, Double: true},
	{BM: 128, BN: 128, BK: 16, WM: 32, WN: 64, TM: 8, TN: 8, Double: true},
	{BM: 128, BN: 64, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Double: true},
	{BM: 64, BN: 128, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Double: true},
	{BM: 64, BN: 128, BK: 8, WM: 64, WN: 32, TM: 8, TN: 8, Double: true},
	{BM: 64, BN: 256, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Double: true},
	{BM: 64, BN: 64, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Double: true},
	{BM: 64, BN: 64, BK: 8, WM: 32, WN: 32, TM: 8, TN: 4, Double: true},
	{BM: 32, BN: 64, BK: 16, WM: 16, WN: 32, TM: 4, TN: 4, Double: true},
	{BM: 32, BN: 64, BK: 8, WM: 32, WN: 32, TM: 8, TN: 4, Double: true},
	{BM: 32, BN: 32, BK: 16, WM: 16, WN: 32, TM: 4, TN: 4, Double: true},
}

// device is an open GPU with the pipelines made so far.
type device struct {
	ctx       gpu.Context
	pipelines map[string]gpu.Pipeline
	submitted uint64
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(shapes []string) error {
	driver := &wgpu.Driver{}
	list, err := gpu.Adapters(driver)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("no adapter")
	}
	ctx, err := driver.Open(list[0].Index, false)
	if err != nil {
		return err
	}
	defer ctx.Close()
	d := &device{ctx: ctx, pipelines: map[string]gpu.Pipeline{}}
	for _, s := range shapes {
		if err := d.shape(s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// shape times every tile and number of parts that may suit a shape, best first.
func (d *device) shape(name string) error {
	var m, n, k uint64
	if _, err := fmt.Sscanf(strings.TrimSuffix(name, "nt"), "%dx%dx%d", &m, &n, &k); err != nil {
		return err
	}
	g := &kir.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}
	params := []uint64{m, n, k, k, 1, 0, n, 1, 0}
	if strings.HasSuffix(name, "nt") {
		g.BUnit, params[6], params[7] = 'k', 1, k
	}
	var bufs []gpu.Handle
	for _, size := range []uint64{m * k, n * k, m * n, tile.ScratchBytes / 4} {
		h, err := d.ctx.CreateBuffer(int64(4*size), gpu.StorageUsage|gpu.CopyDst, false)
		if err != nil {
			return err
		}
		defer d.ctx.DestroyBuffer(h)
		bufs = append(bufs, h)
	}
	type line struct {
		seconds float64
		text    string
	}
	var lines []line
	for _, o := range trials {
		for _, parts := range []int{1, 2, 3, 4, 6, 8} {
			groups := (m + uint64(o.BM) - 1) / uint64(o.BM) * ((n + uint64(o.BN) - 1) / uint64(o.BN))
			if parts > 1 && (groups > 300 || groups*uint64(parts) > 1200 || uint64(parts)*m*n*4 > tile.ScratchBytes || k < uint64(parts*4*o.BK)) {
				continue
			}
			o := o
			o.Parts, o.MaxWorkgroupBytes = parts, d.ctx.Limits().MaxWorkgroupBytes
			tile.Align(g, &o, params)
			t, err := d.time(g, o, params, bufs)
			if err != nil {
				fmt.Printf("%s %dx%dx%d %dx%d parts %d: %v\n", name, o.BM, o.BN, o.BK, o.TM, o.TN, parts, err)
				continue
			}
			lines = append(lines, line{t, fmt.Sprintf("%-18s %3dx%3dx%2d lanes %2dx%2d of %2dx%2d db %-5t parts %d  %8.1f us  %5.1f TFLOP/s",
				name, o.BM, o.BN, o.BK, o.TM, o.TN, o.WM, o.WN, o.Double, parts, t*1e6, 2*float64(m*n*k)/t/1e12)})
		}
	}
	slices.SortFunc(lines, func(a, b line) int {
		if a.seconds < b.seconds {
			return -1
		}
		return 1
	})
	for _, l := range lines {
		fmt.Println(l.text)
	}
	return nil
}

// time gives the least seconds of a product over a few submissions of many.
func (d *device) time(g *kir.Gemm, o tile.GemmOptions, params []uint64, bufs []gpu.Handle) (float64, error) {
	procs, err := tile.FromGemm(g, o)
	if err != nil {
		return 0, err
	}
	var one []gpu.Record
	var words []uint32
	for _, p := range procs {
		r, err := d.record(p, params, bufs, &words)
		if err != nil {
			return 0, err
		}
		defer d.ctx.ReleaseBindGroup(r.B)
		one = append(one, r)
	}
	l := g.Layout()
	flops := 2 * float64(params[l.M]*params[l.N]*params[l.K])
	reps := int(min(200, max(5, 0.006*35e12/flops)))
	var all []gpu.Record
	for range reps {
		all = append(all, one...)
	}
	if err := d.submit(one, words); err != nil {
		return 0, err
	}
	best := 0.0
	for range 4 {
		start := time.Now()
		if err := d.submit(all, words); err != nil {
			return 0, err
		}
		if t := (time.Since(start).Seconds() - submission) / float64(reps); best == 0 || t < best {
			best = t
		}
	}
	return best, nil
}

// submission is about what a submission and the wait for it take, in seconds.
const submission = 0.15e-3

// submit submits and waits, ten seconds at most.
func (d *device) submit(records []gpu.Record, words []uint32) error {
	if err := d.ctx.Submit(records, words); err != nil {
		return err
	}
	d.submitted++
	for start := time.Now(); ; {
		n, err := d.ctx.Completed()
		if err != nil || n >= d.submitted {
			return err
		}
		if time.Since(start) > 10*time.Second {
			return fmt.Errorf("the device does not answer")
		}
	}
}

// record makes the dispatch of p over bufs: A, B, C and scratch memory.
func (d *device) record(p *kir.Proc, params []uint64, bufs []gpu.Handle, words *[]uint32) (gpu.Record, error) {
	f := d.ctx.Features()
	m, err := wgsl.Print(p, wgsl.Options{Immediates: true, F16: f.F16, I64: f.I64, F32Atomics: f.F32Atomics})
	if err != nil {
		return gpu.Record{}, err
	}
	sh := gpu.Shader{Name: p.Name, Text: m.Text, Entry: m.Entry, Proc: p, Module: m, ImmediateBytes: m.ParamBytes()}
	var entries []gpu.BufferBinding
	for i, b := range m.Bindings {
		kind := gpu.StorageReadWrite
		if b.ReadOnly {
			kind = gpu.StorageRead
		}
		sh.Bindings = append(sh.Bindings, kind)
		bytes := int64(tile.ScratchBytes)
		if b.Kind == wgsl.BindStorage {
			x := []uint64{params[0] * params[2], params[1] * params[2], params[0] * params[1]}
			bytes = int64(4 * x[i])
		}
		entries = append(entries, gpu.BufferBinding{Buffer: bufs[i], Bytes: bytes})
	}
	pipe, ok := d.pipelines[m.Text]
	if !ok {
		if pipe, err = d.ctx.CreatePipeline(&sh); err != nil {
			return gpu.Record{}, err
		}
		d.pipelines[m.Text] = pipe
	}
	group, err := d.ctx.CreateBindGroup(pipe.Layout, entries)
	if err != nil {
		return gpu.Record{}, err
	}
	block := make([]byte, m.ParamBytes())
	if err := m.Pack(block, params, 0); err != nil {
		return gpu.Record{}, err
	}
	first := len(*words)
	for i := 0; i < len(block); i += 4 {
		*words = append(*words, uint32(block[i])|uint32(block[i+1])<<8|uint32(block[i+2])<<16|uint32(block[i+3])<<24)
	}
	grid := p.Grid(params)
	return gpu.Record{Kind: gpu.Dispatch, A: pipe.Handle, B: group, X: uint64(grid[0]), Y: uint64(grid[1]), Z: uint64(grid[2]),
		Word: uint32(first), Words: uint32(len(block) / 4)}, nil
}
