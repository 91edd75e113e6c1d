package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/torchlette/torchlette/engine/ir"
	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/wgpu"
	"github.com/torchlette/torchlette/kernels/kir"
	"github.com/torchlette/torchlette/kernels/tile"
)

// trials are the tiles to time beside those that kernels/tile chooses, in each pass.
var trials = []tile.AttentionOptions{
	{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 16, Double: true, Unroll: 2},
	{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 16, Double: true, Unroll: 4},
	{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 16, Double: true, Unroll: 4, UnrollRows: 2},
	{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 16, Double: true, Unroll: 2, UnrollRows: 4},
	{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 16, Unroll: 4, UnrollRows: 2},
	{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 8, Double: true, Unroll: 2},
}

var areas = map[bool]int{false: 1, true: 2}

var passNames = [...]string{"forward", "dq", "dk, dv"}

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
	for _, s := range shapes {
		p := &problem{device: device{ctx: ctx}, name: s}
		if _, err := fmt.Sscanf(s, "%dx%dx%dx%d", &p.batch, &p.heads, &p.length, &p.width); err != nil {
			return err
		}
		err := p.time()
		p.free()
		if err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// problem is a shape with its operands on the device.
type problem struct {
	device
	name                         string
	batch, heads, length, width  uint64
	q, k, v, g, stats, lse, a, b buffer // a, b: results
}

// trial is a tile's program, and the least seconds that it took.
type trial struct {
	options tile.AttentionOptions
	record  gpu.Record
	words   []uint32
	reps    int
	seconds float64
	diff    float64
}

func (p *problem) time() error {
	rows := p.batch * p.heads * p.length
	r := rand.New(rand.NewPCG(1, 2))
	for _, b := range []*buffer{&p.q, &p.k, &p.v, &p.g} {
		data := make([]float32, rows*p.width)
		for i := range data {
			data[i] = 2*r.Float32() - 1
		}
		if err := p.upload(b, data); err != nil {
			return err
		}
	}
	for b, n := range map[*buffer]uint64{&p.lse: rows, &p.a: rows * p.width, &p.b: rows * p.width} {
		if err := p.create(b, int64(4*n)); err != nil {
			return err
		}
	}
	for pass := kir.AttentionForward; pass <= kir.AttentionGradKV; pass++ {
		if err := p.pass(pass); err != nil {
			return fmt.Errorf("%s: %w", passNames[pass], err)
		}
	}
	return nil
}

// params are the launch parameters of dense operands.
func (p *problem) params(a *kir.Attention) []uint64 {
	list := []uint64{p.batch, p.heads, p.heads, p.length, p.length, p.width, p.width, ir.EncodeFloat(ir.F32, 1/math.Sqrt(float64(p.width)))}
	operands := 3
	if a.Pass != kir.AttentionForward {
		operands = 4
	}
	for range operands {
		list = append(list, p.heads*p.length*p.width, p.length*p.width, p.width, 1, 0)
	}
	return list
}

// pass times every tile on one pass and prints the best first.
func (p *problem) pass(pass kir.AttentionPass) error {
	a := &kir.Attention{Type: ir.F32, Pass: pass, Causal: true}
	params := p.params(a)
	l := p.ctx.Limits()
	caps := tile.Caps{MaxWorkgroupBytes: l.MaxWorkgroupBytes, MaxThreads: min(l.MaxWorkgroupSize, l.MaxWorkgroupX), Units: 264}
	chosen := tile.ChooseAttention(a, params, caps)
	bufs := []buffer{p.q, p.k, p.v, p.a, p.lse}
	products := 2.0
	if pass != kir.AttentionForward {
		bufs, products = []buffer{p.q, p.k, p.v, p.g, p.stats, p.a}, 3
	}
	results := []buffer{p.a}
	if pass == kir.AttentionGradKV {
		bufs, results, products = append(bufs, p.b), append(results, p.b), 4
	}
	flops := products * float64(p.batch*p.heads*p.length*p.length*p.width)
	list, err := p.prepare(a, append([]tile.AttentionOptions{chosen}, trials...), params, bufs, flops)
	if err != nil {
		return err
	}
	if err := p.compare(list, results); err != nil {
		return err
	}
	if pass == kir.AttentionForward {
		if err := p.statistics(); err != nil {
			return err
		}
	}
	if err := p.race(list); err != nil {
		return err
	}
	first := list[0].options
	slices.SortFunc(list, func(a, b *trial) int { return cmp.Compare(a.seconds, b.seconds) })
	for _, t := range list {
		o, mark := t.options, ' '
		if o == first {
			mark = '*'
		}
		fmt.Printf("%-14s %-7s %c %2dx%2d threads %2dx%2d chunks %2d, %2d x %d unroll %d, %d %9.1f us %5.1f TFLOP/s, differs by %.1e\n", p.name, passNames[pass], mark,
			o.Rows, o.Cols, o.RowThreads, o.Lanes, o.Chunk, o.ChunkRows, areas[o.Double], o.Unroll, o.UnrollRows, t.seconds*1e6, flops/t.seconds/1e12, t.diff)
		p.ctx.ReleaseBindGroup(t.record.B)
	}
	return nil
}

// prepare makes the programs of the tiles that the device can run.
func (p *problem) prepare(a *kir.Attention, tiles []tile.AttentionOptions, params []uint64, bufs []buffer, flops float64) ([]*trial, error) {
	var list []*trial
	for i, o := range tiles {
		if i > 0 {
			o.Width, o.WidthV, o.Vec, o.Exact, o.MaxWorkgroupBytes = int(p.width), int(p.width), true, true, tiles[0].MaxWorkgroupBytes
		}
		t := &trial{options: o, reps: int(min(100, max(1, 0.01*20e12/flops)))}
		proc, err := tile.FromAttention(a, o)
		if err != nil {
			fmt.Printf("%s %s: %v\n", p.name, passNames[a.Pass], err)
			continue
		}
		begun := time.Now()
		if t.record, t.words, err = p.dispatch(proc, params, bufs); err != nil {
			return nil, err
		}
		if s := time.Since(begun); s > 3*time.Second {
			fmt.Printf("%s %s %+v: %v to compile\n", p.name, passNames[a.Pass], o, s)
		}
		list = append(list, t)
	}
	return list, nil
}

// compare runs each trial once and notes how far its results are from the first trial's.
func (p *problem) compare(list []*trial, results []buffer) error {
	var want [][]float32
	for _, t := range list {
		if err := p.submit([]gpu.Record{t.record}, t.words); err != nil {
			return err
		}
		for i, b := range results {
			got, err := p.download(b)
			if err != nil {
				return err
			}
			if len(want) <= i {
				want = append(want, got)
			}
			t.diff = max(t.diff, difference(got, want[i]))
		}
	}
	return nil
}

// difference is the largest difference of two results over the second's largest number; NaN differs infinitely.
func difference(got, want []float32) float64 {
	worst, top := 0.0, 0.0
	for i, x := range want {
		top = max(top, math.Abs(float64(x)))
		d := math.Abs(float64(got[i] - x))
		if d != d {
			d = math.Inf(1)
		}
		worst = max(worst, d)
	}
	return worst / top
}

// statistics makes what the gradients read: lse, and numbers in the place of delta.
func (p *problem) statistics() error {
	lse, err := p.download(p.lse)
	if err != nil {
		return err
	}
	data := make([]float32, 2*len(lse))
	for i, x := range lse {
		data[2*i], data[2*i+1] = x, 0.1
	}
	return p.upload(&p.stats, data)
}

// race times the trials in turns, so that a disturbance does not strike one alone.
func (p *problem) race(list []*trial) error {
	for round := range 5 {
		for _, t := range list {
			all := slices.Repeat([]gpu.Record{t.record}, t.reps)
			start := time.Now()
			if err := p.submit(all, t.words); err != nil {
				return err
			}
			if s := (time.Since(start).Seconds() - submission) / float64(t.reps); round == 1 || round > 1 && s < t.seconds {
				t.seconds = s
			}
		}
	}
	return nil
}

func (p *problem) free() {
	for _, b := range []buffer{p.q, p.k, p.v, p.g, p.stats, p.lse, p.a, p.b} {
		if b.handle != 0 {
			p.ctx.DestroyBuffer(b.handle)
		}
	}
}

// floats reads little-endian float32s.
func floats(mem []byte) []float32 {
	out := make([]float32, len(mem)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(mem[4*i:]))
	}
	return out
}
