package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/kernels/kir"
	"github.com/torchlette/torchlette/kernels/wgsl"
)

// submission is about what a submission and the wait for it take, in seconds.
const submission = 0.15e-3

// patience is how long a submission may take: the software adapter is slow.
const patience = 120 * time.Second

// device is an open GPU.
type device struct {
	ctx gpu.Context
}

// submitted counts submissions to the one context of the process.
var submitted uint64

type buffer struct {
	handle gpu.Handle
	bytes  int64
}

func (d *device) create(b *buffer, bytes int64) (err error) {
	b.bytes = bytes
	b.handle, err = d.ctx.CreateBuffer(bytes, gpu.StorageUsage|gpu.CopyDst|gpu.CopySrc, false)
	return err
}

func (d *device) upload(b *buffer, data []float32) error {
	if err := d.create(b, int64(4*len(data))); err != nil {
		return err
	}
	from, err := d.ctx.CreateBuffer(b.bytes, gpu.MapWrite|gpu.CopySrc, true)
	if err != nil {
		return err
	}
	defer d.ctx.DestroyBuffer(from)
	mem := d.ctx.Mapped(from, gpu.MapWrite, b.bytes)
	for i, x := range data {
		binary.LittleEndian.PutUint32(mem[4*i:], math.Float32bits(x))
	}
	if err := d.ctx.Unmap(from); err != nil {
		return err
	}
	return d.submit([]gpu.Record{{Kind: gpu.CopyBuffer, A: from, B: b.handle, Z: uint64(b.bytes)}}, nil)
}

func (d *device) download(b buffer) ([]float32, error) {
	to, err := d.ctx.CreateBuffer(b.bytes, gpu.MapRead|gpu.CopyDst, false)
	if err != nil {
		return nil, err
	}
	defer d.ctx.DestroyBuffer(to)
	if err := d.submit([]gpu.Record{{Kind: gpu.CopyBuffer, A: b.handle, B: to, Z: uint64(b.bytes)}}, nil); err != nil {
		return nil, err
	}
	if err := d.ctx.MapStart(to, gpu.MapRead, b.bytes); err != nil {
		return nil, err
	}
	for start := time.Now(); ; {
		done, err := d.ctx.MapDone(to)
		switch {
		case err != nil:
			return nil, err
		case done:
			out := floats(d.ctx.Mapped(to, gpu.MapRead, b.bytes))
			return out, d.ctx.Unmap(to)
		case time.Since(start) > patience:
			return nil, fmt.Errorf("the device does not answer")
		}
	}
}

// submit submits and waits.
func (d *device) submit(records []gpu.Record, words []uint32) error {
	if err := d.ctx.Submit(records, words); err != nil {
		return err
	}
	submitted++
	for start := time.Now(); ; {
		n, err := d.ctx.Completed()
		if err != nil || n >= submitted {
			return err
		}
		if time.Since(start) > patience {
			return fmt.Errorf("the device does not answer")
		}
	}
}

// dispatch makes the pipeline of p and its dispatch over bufs.
func (d *device) dispatch(p *kir.Proc, params []uint64, bufs []buffer) (gpu.Record, []uint32, error) {
	fail := func(err error) (gpu.Record, []uint32, error) { return gpu.Record{}, nil, err }
	m, err := wgsl.Print(p, wgsl.Options{Immediates: true})
	if err != nil {
		return fail(err)
	}
	sh := gpu.Shader{Name: p.Name, Text: m.Text, Entry: m.Entry, Proc: p, Module: m, ImmediateBytes: m.ParamBytes()}
	var entries []gpu.BufferBinding
	for i, b := range m.Bindings {
		kind := gpu.StorageReadWrite
		if b.ReadOnly {
			kind = gpu.StorageRead
		}
		sh.Bindings = append(sh.Bindings, kind)
		entries = append(entries, gpu.BufferBinding{Buffer: bufs[i].handle, Bytes: bufs[i].bytes})
	}
	pipe, err := d.ctx.CreatePipeline(&sh)
	if err != nil {
		return fail(err)
	}
	group, err := d.ctx.CreateBindGroup(pipe.Layout, entries)
	if err != nil {
		return fail(err)
	}
	block := make([]byte, m.ParamBytes())
	if err := m.Pack(block, params, 0); err != nil {
		return fail(err)
	}
	var words []uint32
	for ; len(block) > 0; block = block[4:] {
		words = append(words, binary.LittleEndian.Uint32(block))
	}
	grid := p.Grid(params)
	return gpu.Record{Kind: gpu.Dispatch, A: pipe.Handle, B: group, X: uint64(grid[0]), Y: uint64(grid[1]), Z: uint64(grid[2]), Words: uint32(len(words))}, words, nil
}
