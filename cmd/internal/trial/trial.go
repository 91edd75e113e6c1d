package trial

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/wgpu"
	"github.com/torchlette/torchlette/kernels/gpuir"
	"github.com/torchlette/torchlette/kernels/wgsl"
)

// Patience bounds the time of a submission; a software adapter is slow.
const Patience = 120 * time.Second

// Device is an open GPU with the pipelines made so far.
type Device struct {
	gpu.Context
	pipelines map[string]gpu.Pipeline
	submitted uint64
}

// Buffer is a storage buffer.
type Buffer struct {
	Handle gpu.Handle
	Bytes  int64
}

// Open opens the first adapter.
func Open() (*Device, error) {
	driver := &wgpu.Driver{}
	list, err := gpu.Adapters(driver)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("no adapter")
	}
	ctx, err := driver.Open(list[0].Index, false)
	if err != nil {
		return nil, err
	}
	return &Device{Context: ctx, pipelines: map[string]gpu.Pipeline{}}, nil
}

// Main runs a command: it calls shape for each shape on the command line.
func Main(shape func(d *Device, name string) error) {
	if err := each(os.Args[1:], shape); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func each(names []string, shape func(d *Device, name string) error) error {
	d, err := Open()
	if err != nil {
		return err
	}
	defer d.Close()
	for _, name := range names {
		if err := shape(d, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Empty makes a buffer of n floats.
func (d *Device) Empty(n uint64) (Buffer, error) {
	h, err := d.CreateBuffer(int64(4*n), gpu.StorageUsage|gpu.CopyDst|gpu.CopySrc, false)
	return Buffer{h, int64(4 * n)}, err
}

// Upload makes a buffer of n floats and calls fill with its memory.
func (d *Device) Upload(n uint64, fill func(mem []byte)) (Buffer, error) {
	b, err := d.Empty(n)
	if err != nil {
		return b, err
	}
	from, err := d.CreateBuffer(b.Bytes, gpu.MapWrite|gpu.CopySrc, true)
	if err != nil {
		return b, err
	}
	defer d.DestroyBuffer(from)
	fill(d.Mapped(from, gpu.MapWrite, b.Bytes))
	if err := d.Unmap(from); err != nil {
		return b, err
	}
	return b, d.Do([]gpu.Record{{Kind: gpu.CopyBuffer, A: from, B: b.Handle, Z: uint64(b.Bytes)}}, nil)
}

// Random makes a buffer of n random floats in [-1, 1) that repeat after a million. Arithmetic on zeros would take less
// power, and the device would run at a higher clock.
func (d *Device) Random(n, seed uint64) (Buffer, error) {
	return d.Upload(n, func(mem []byte) {
		const period = 4 << 20
		r := rand.New(rand.NewPCG(seed, 2))
		for at := 0; at < min(len(mem), period); at += 4 {
			binary.LittleEndian.PutUint32(mem[at:], math.Float32bits(2*r.Float32()-1))
		}
		for at := period; at < len(mem); at *= 2 {
			copy(mem[at:], mem[:at])
		}
	})
}

// Download reads a buffer.
func (d *Device) Download(b Buffer) ([]float32, error) {
	to, err := d.CreateBuffer(b.Bytes, gpu.MapRead|gpu.CopyDst, false)
	if err != nil {
		return nil, err
	}
	defer d.DestroyBuffer(to)
	if err := d.Do([]gpu.Record{{Kind: gpu.CopyBuffer, A: b.Handle, B: to, Z: uint64(b.Bytes)}}, nil); err != nil {
		return nil, err
	}
	if err := d.MapStart(to, gpu.MapRead, b.Bytes); err != nil {
		return nil, err
	}
	if err := wait(func() (bool, error) { return d.MapDone(to) }); err != nil {
		return nil, err
	}
	mem := d.Mapped(to, gpu.MapRead, b.Bytes)
	out := make([]float32, len(mem)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(mem[4*i:]))
	}
	return out, d.Unmap(to)
}

// Do submits and waits.
func (d *Device) Do(records []gpu.Record, words []uint32) error {
	if err := d.Submit(records, words); err != nil {
		return err
	}
	d.submitted++
	return wait(func() (bool, error) {
		n, err := d.Completed()
		return n >= d.submitted, err
	})
}

func wait(done func() (bool, error)) error {
	for start := time.Now(); ; {
		switch ok, err := done(); {
		case ok || err != nil:
			return err
		case time.Since(start) > Patience:
			return fmt.Errorf("the device does not answer")
		}
	}
}

// Program is the dispatches of one trial, how often a sample repeats them, and the least seconds that they took.
type Program struct {
	Records []gpu.Record
	Words   []uint32
	Reps    int
	Seconds float64
}

// Add makes the pipeline of p and adds its dispatch over bufs: the buffers of p, then scratch memory.
func (d *Device) Add(t *Program, p *gpuir.Program, params []uint64, bufs []Buffer) error {
	f := d.Features()
	m, err := wgsl.Print(p, wgsl.Options{Immediates: true, F16: f.F16, I64: f.I64, F32Atomics: f.F32Atomics})
	if err != nil {
		return err
	}
	sh := gpu.Shader{Name: p.Name, Text: m.Text, Entry: m.Entry, Proc: p, Module: m, ImmediateBytes: m.ParamBytes()}
	var entries []gpu.BufferBinding
	for i, b := range m.Bindings {
		kind := gpu.StorageReadWrite
		if b.ReadOnly {
			kind = gpu.StorageRead
		}
		sh.Bindings = append(sh.Bindings, kind)
		entries = append(entries, gpu.BufferBinding{Buffer: bufs[i].Handle, Bytes: bufs[i].Bytes})
	}
	pipe, ok := d.pipelines[m.Text]
	if !ok {
		if pipe, err = d.CreatePipeline(&sh); err != nil {
			return err
		}
		d.pipelines[m.Text] = pipe
	}
	group, err := d.CreateBindGroup(pipe.Layout, entries)
	if err != nil {
		return err
	}
	block := make([]byte, m.ParamBytes())
	if err := m.Pack(block, params, 0); err != nil {
		return err
	}
	first := len(t.Words)
	for ; len(block) > 0; block = block[4:] {
		t.Words = append(t.Words, binary.LittleEndian.Uint32(block))
	}
	grid := p.Grid(params)
	t.Records = append(t.Records, gpu.Record{Kind: gpu.Dispatch, A: pipe.Handle, B: group, X: uint64(grid[0]),
		Y: uint64(grid[1]), Z: uint64(grid[2]),
		Word: uint32(first), Words: uint32(len(t.Words) - first)})
	return nil
}

// Release frees the bind groups of t.
func (d *Device) Release(t *Program) {
	for _, r := range t.Records {
		d.ReleaseBindGroup(r.B)
	}
}

// submission is the least time of a submission and the wait for it, measured with a copy of 16 bytes.
func (d *Device) submission() (time.Duration, error) {
	from, err := d.Empty(4)
	if err != nil {
		return 0, err
	}
	defer d.DestroyBuffer(from.Handle)
	to, err := d.Empty(4)
	if err != nil {
		return 0, err
	}
	defer d.DestroyBuffer(to.Handle)
	least := Patience
	for range 20 {
		start := time.Now()
		if err := d.Do([]gpu.Record{{Kind: gpu.CopyBuffer, A: from.Handle, B: to.Handle, Z: 16}}, nil); err != nil {
			return 0, err
		}
		least = min(least, time.Since(start))
	}
	return least, nil
}

// Race times programs in turns, so that the device's clock is up and a disturbance does not hit one program alone. The
// first round does not count, and the time of an empty submission is subtracted.
func (d *Device) Race(list []*Program) error {
	empty, err := d.submission()
	if err != nil {
		return err
	}
	for round := range 5 {
		for _, t := range list {
			all := slices.Repeat(t.Records, t.Reps)
			start := time.Now()
			if err := d.Do(all, t.Words); err != nil {
				return err
			}
			if s := (time.Since(start) - empty).Seconds() / float64(t.Reps); round == 1 || round > 1 && s < t.Seconds {
				t.Seconds = s
			}
		}
	}
	return nil
}
