package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
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
	{BM: 128, BN: 256, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Double: true},
	{BM: 256, BN: 128, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Double: true},
	{BM: 64, BN: 256, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Double: true},
	{BM: 256, BN: 64, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Double: true},
	{BM: 128, BN: 128, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Double: true},
	{BM: 128, BN: 128, BK: 16, WM: 64, WN: 32, TM: 8, TN: 8, Double: true},
	{BM: 128, BN: 128, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Double: true},
	{BM: 64, BN: 128, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Double: true},
	{BM: 128, BN: 64, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Double: true},
	{BM: 64, BN: 128, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Double: true},
	{BM: 64, BN: 64, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Double: true},
	{BM: 64, BN: 64, BK: 8, WM: 32, WN: 32, TM: 8, TN: 4, Double: true},
	{BM: 64, BN: 64, BK: 16, WM: 32, WN: 32, TM: 8, TN: 4, Double: true},
	{BM: 32, BN: 64, BK: 8, WM: 32, WN: 32, TM: 8, TN: 4, Double: true},
	{BM: 32, BN: 64, BK: 16, WM: 16, WN: 32, TM: 4, TN: 4, Double: true},
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

// shape times every tile and number of parts that may suit a shape, and prints the best first.
func (d *device) shape(name string) error {
	var m, n, k uint64
	if _, err := fmt.Sscanf(strings.TrimRight(name, "nt"), "%dx%dx%d", &m, &n, &k); err != nil {
		return err
	}
	g := &kir.Gemm{Type: ir.F32, AUnit: 'k', BUnit: 'n'}
	params := []uint64{m, n, k, k, 1, 0, n, 1, 0}
	if strings.HasSuffix(name, "nt") {
		g.BUnit, params[6], params[7] = 'k', 1, k
	}
	if strings.HasSuffix(name, "tn") {
		g.AUnit, params[3], params[4] = 'm', 1, m
	}
	var bufs []gpu.Handle
	for _, size := range []uint64{m * k, n * k, m * n, scratchBytes / 4} {
		h, err := d.ctx.CreateBuffer(int64(4*size), gpu.StorageUsage|gpu.CopyDst, false)
		if err != nil {
			return err
		}
		defer d.ctx.DestroyBuffer(h)
		if len(bufs) < 2 { // products of zeros take less power, and run at a higher clock
			if err := d.randomise(h, int(size)); err != nil {
				return err
			}
		}
		bufs = append(bufs, h)
	}
	list, err := d.prepare(name, g, params, bufs)
	if err != nil {
		return err
	}
	if err := d.race(list); err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b *trial) int { return cmp.Compare(a.seconds, b.seconds) })
	for _, t := range list {
		o := t.options
		fmt.Printf("%-18s %3dx%3dx%2d lanes %2dx%2d of %2dx%2d parts %d  %8.1f us  %5.1f TFLOP/s\n",
			name, o.BM, o.BN, o.BK, o.TM, o.TN, o.WM, o.WN, o.Parts, t.seconds*1e6, 2*float64(m*n*k)/t.seconds/1e12)
		for _, r := range t.one {
			d.ctx.ReleaseBindGroup(r.B)
		}
	}
	return nil
}

// randomise fills a buffer of n floats with random numbers from -1 to 1, which repeat.
func (d *device) randomise(h gpu.Handle, n int) error {
	bytes := int64(4 * n)
	from, err := d.ctx.CreateBuffer(bytes, gpu.MapWrite|gpu.CopySrc, true)
	if err != nil {
		return err
	}
	defer d.ctx.DestroyBuffer(from)
	mem := d.ctx.Mapped(from, gpu.MapWrite, bytes)
	r := rand.New(rand.NewPCG(1, 2))
	for at := 0; at < min(len(mem), 4<<20); at += 4 {
		binary.LittleEndian.PutUint32(mem[at:], math.Float32bits(2*r.Float32()-1))
	}
	for at := 4 << 20; at < len(mem); at *= 2 {
		copy(mem[at:], mem[:at])
	}
	if err := d.ctx.Unmap(from); err != nil {
		return err
	}
	return d.submit([]gpu.Record{{Kind: gpu.CopyBuffer, A: from, B: h, Z: uint64(bytes)}}, nil)
}

// trial is a tile's program for a shape, and the least seconds that it took.
type trial struct {
	options tile.GemmOptions
	one     []gpu.Record
	words   []uint32
	reps    int
	seconds float64
}

// scratchBytes is the most that the parts of a trial may take.
const scratchBytes = 64 << 20

// prepare makes the programs of every tile and number of parts that may suit a product.
func (d *device) prepare(name string, g *kir.Gemm, params []uint64, bufs []gpu.Handle) ([]*trial, error) {
	m, n, k := params[0], params[1], params[2]
	var list []*trial
	for _, o := range trials {
		for _, parts := range []int{1, 2, 3, 4, 6, 8} {
			groups := (m + uint64(o.BM) - 1) / uint64(o.BM) * ((n + uint64(o.BN) - 1) / uint64(o.BN))
			if parts > 1 && (groups*uint64(parts) > 1200 || uint64(parts)*m*n*4 > scratchBytes || k < uint64(parts*4*o.BK)) {
				continue
			}
			t := &trial{options: o, reps: int(min(100, max(3, 0.004*35e12/(2*float64(m*n*k)))))}
			t.options.Parts, t.options.MaxWorkgroupBytes = parts, d.ctx.Limits().MaxWorkgroupBytes
			tile.Align(g, &t.options, params)
			procs, err := tile.FromGemm(g, t.options)
			if err != nil {
				fmt.Printf("%s %dx%dx%d %dx%d parts %d: %v\n", name, o.BM, o.BN, o.BK, o.TM, o.TN, parts, err)
				continue
			}
			for _, p := range procs {
				r, err := d.record(p, params, bufs, &t.words)
				if err != nil {
					return nil, err
				}
				t.one = append(t.one, r)
			}
			list = append(list, t)
		}
	}
	return list, nil
}

// race times the trials in turns, so that the device's clock is up and a disturbance
// does not strike one trial alone.
func (d *device) race(list []*trial) error {
	for round := range 5 {
		for _, t := range list {
			var all []gpu.Record
			for range t.reps {
				all = append(all, t.one...)
			}
			start := time.Now()
			if err := d.submit(all, t.words); err != nil {
				return err
			}
			if s := (time.Since(start).Seconds() - submission) / float64(t.reps); round == 1 || round > 1 && s < t.seconds {
				t.seconds = s
			}
		}
	}
	return nil
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
		bytes := int64(scratchBytes)
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
