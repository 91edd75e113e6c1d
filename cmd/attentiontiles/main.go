package main

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/torchlette/torchlette/cmd/internal/trial"
	"github.com/torchlette/torchlette/ir"
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/launch"
)

// trials are the tiles to time, for each pass, beside the tile that kernels/gpucode chooses.
var trials = []gpucode.AttentionOptions{
	{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 16, Double: true, Unroll: 2},
	{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 16, Double: true, Unroll: 4},
	{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 16, Double: true, Unroll: 4, UnrollRows: 2},
	{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 16, Double: true, Unroll: 2, UnrollRows: 4},
	{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 16, Unroll: 4, UnrollRows: 2},
	{Rows: 64, Cols: 64, RowThreads: 16, Lanes: 16, Chunk: 16, ChunkRows: 8, Double: true, Unroll: 2},
	{Rows: 32, Cols: 64, RowThreads: 8, Lanes: 16, Chunk: 16, ChunkRows: 16, Double: true, Unroll: 2},
	{Rows: 32, Cols: 64, RowThreads: 8, Lanes: 16, Chunk: 16, ChunkRows: 16, Unroll: 2},
	{Rows: 32, Cols: 64, RowThreads: 8, Lanes: 16, Chunk: 16, ChunkRows: 16, Unroll: 4, UnrollRows: 2},
}

var areas = map[bool]int{false: 1, true: 2}

var passNames = [...]string{"forward", "dq", "dk, dv"}

func main() { trial.Main(shape) }

func shape(d *trial.Device, name string) error {
	p := &problem{Device: d, name: name}
	if _, err := fmt.Sscanf(name, "%dx%dx%dx%d", &p.batch, &p.heads, &p.length, &p.width); err != nil {
		return err
	}
	defer p.free()
	return p.time()
}

// problem is a shape with its operands on the device.
type problem struct {
	*trial.Device
	name                         string
	batch, heads, length, width  uint64
	q, k, v, g, stats, lse, a, b trial.Buffer // a, b: results
}

// entry is a tile with its program and the difference of its results from the first tile's.
type entry struct {
	trial.Program
	options gpucode.AttentionOptions
	diff    float64
}

func (p *problem) time() error {
	rows := p.batch * p.heads * p.length
	for i, b := range []*trial.Buffer{&p.q, &p.k, &p.v, &p.g} {
		var err error
		if *b, err = p.Random(rows*p.width, uint64(i)); err != nil {
			return err
		}
	}
	for b, n := range map[*trial.Buffer]uint64{&p.lse: rows, &p.a: rows * p.width, &p.b: rows * p.width} {
		var err error
		if *b, err = p.Empty(n); err != nil {
			return err
		}
	}
	for pass := launch.AttentionForward; pass <= launch.AttentionGradKV; pass++ {
		if err := p.pass(pass); err != nil {
			return fmt.Errorf("%s: %w", passNames[pass], err)
		}
	}
	return nil
}

// params are the launch parameters of dense operands.
func (p *problem) params(a *launch.Attention) []uint64 {
	list := []uint64{p.batch, p.heads, p.heads, p.length, p.length, p.width, p.width,
		ir.EncodeFloat(ir.F32, 1/math.Sqrt(float64(p.width)))}
	operands := 3
	if a.Pass != launch.AttentionForward {
		operands = 4
	}
	for range operands {
		list = append(list, p.heads*p.length*p.width, p.length*p.width, p.width, 1, 0)
	}
	return list
}

// pass times every tile on one pass and prints the best first.
func (p *problem) pass(pass launch.AttentionPass) error {
	a := &launch.Attention{Type: ir.F32, Pass: pass, Causal: true}
	params := p.params(a)
	l := p.Limits()
	caps := gpucode.Caps{MaxWorkgroupBytes: l.MaxWorkgroupBytes, MaxThreads: min(l.MaxWorkgroupSize, l.MaxWorkgroupX),
		Units: 264}
	chosen := gpucode.ChooseAttention(a, params, caps)
	bufs := []trial.Buffer{p.q, p.k, p.v, p.a, p.lse}
	products := 2.0
	if pass != launch.AttentionForward {
		bufs, products = []trial.Buffer{p.q, p.k, p.v, p.g, p.stats, p.a}, 3
	}
	results := []trial.Buffer{p.a}
	if pass == launch.AttentionGradKV {
		bufs, results, products = append(bufs, p.b), append(results, p.b), 4
	}
	flops := products * float64(p.batch*p.heads*p.length*p.length*p.width)
	list, err := p.prepare(a, append([]gpucode.AttentionOptions{chosen}, trials...), params, bufs, flops)
	if err != nil {
		return err
	}
	if err := p.compare(list, results); err != nil {
		return err
	}
	if pass == launch.AttentionForward {
		if err := p.statistics(); err != nil {
			return err
		}
	}
	var programs []*trial.Program
	for _, t := range list {
		programs = append(programs, &t.Program)
	}
	if err := p.Race(programs); err != nil {
		return err
	}
	first := list[0].options
	slices.SortFunc(list, func(a, b *entry) int { return cmp.Compare(a.Seconds, b.Seconds) })
	for _, t := range list {
		o, mark := t.options, ' '
		if o == first {
			mark = '*'
		}
		fmt.Printf("%-14s %-7s %c %2dx%2d threads %2dx%2d chunks %2d, %2d x %d unroll %d, %d %9.1f us %5.1f TFLOP/s, "+
			"differs by %.1e\n", p.name, passNames[pass], mark,
			o.Rows, o.Cols, o.RowThreads, o.Lanes, o.Chunk, o.ChunkRows, areas[o.Double], o.Unroll, o.UnrollRows, t.Seconds*1e6,
			flops/t.Seconds/1e12, t.diff)
		p.Release(&t.Program)
	}
	return nil
}

// prepare makes the programs of the tiles that the device can run.
func (p *problem) prepare(a *launch.Attention, tiles []gpucode.AttentionOptions, params []uint64, bufs []trial.Buffer,
	flops float64) ([]*entry, error) {
	var list []*entry
	for i, o := range tiles {
		if i > 0 {
			o.Width, o.WidthV, o.Vec, o.Exact, o.MaxWorkgroupBytes = int(p.width), int(p.width), true, true,
				tiles[0].MaxWorkgroupBytes
		}
		t := &entry{options: o, Program: trial.Program{Reps: int(min(100, max(1, 0.01*20e12/flops)))}}
		procs, err := gpucode.FromAttention(a, o)
		if err != nil {
			fmt.Printf("%s %s: %v\n", p.name, passNames[a.Pass], err)
			continue
		}
		begun := time.Now()
		if err := p.Add(&t.Program, procs[0], params, bufs); err != nil {
			return nil, err
		}
		if s := time.Since(begun); s > 3*time.Second {
			fmt.Printf("%s %s %+v: %v to compile\n", p.name, passNames[a.Pass], o, s)
		}
		list = append(list, t)
	}
	return list, nil
}

// compare runs each trial once and notes the difference of its results from the first trial's.
func (p *problem) compare(list []*entry, results []trial.Buffer) error {
	var want [][]float32
	for _, t := range list {
		if err := p.Do(t.Records, t.Words); err != nil {
			return err
		}
		for i, b := range results {
			got, err := p.Download(b)
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

// difference is the largest difference of two results over the second's largest number; with a NaN it is infinite.
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

// statistics makes what the gradients read: lse, and numbers in place of delta.
func (p *problem) statistics() error {
	lse, err := p.Download(p.lse)
	if err != nil {
		return err
	}
	p.stats, err = p.Upload(2*uint64(len(lse)), func(mem []byte) {
		for i, x := range lse {
			binary.LittleEndian.PutUint32(mem[8*i:], math.Float32bits(x))
			binary.LittleEndian.PutUint32(mem[8*i+4:], math.Float32bits(0.1))
		}
	})
	return err
}

func (p *problem) free() {
	for _, b := range []trial.Buffer{p.q, p.k, p.v, p.g, p.stats, p.lse, p.a, p.b} {
		if b.Handle != 0 {
			p.DestroyBuffer(b.Handle)
		}
	}
}
