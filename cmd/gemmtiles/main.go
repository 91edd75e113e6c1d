package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"

	"github.com/torchlette/torchlette/cmd/internal/trial"
	"github.com/torchlette/torchlette/kernels/gpucode"
	"github.com/torchlette/torchlette/kernels/launch"
)

// trials are the tiles to time.
var trials = []gpucode.GemmOptions{
	{BM: 128, BN: 256, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Serpentine: true, Double: true},
	{BM: 256, BN: 128, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Serpentine: true, Double: true},
	{BM: 64, BN: 256, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Serpentine: true, Double: true},
	{BM: 256, BN: 64, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Serpentine: true, Double: true},
	{BM: 128, BN: 128, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Serpentine: true, Double: true},
	{BM: 128, BN: 128, BK: 16, WM: 64, WN: 32, TM: 8, TN: 8, Double: true},
	{BM: 128, BN: 128, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Serpentine: true, Double: true},
	{BM: 64, BN: 128, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Serpentine: true, Double: true},
	{BM: 64, BN: 128, BK: 16, WM: 32, WN: 64, TM: 8, TN: 8, Serpentine: true, Double: true},
	{BM: 128, BN: 64, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Serpentine: true, Double: true},
	{BM: 64, BN: 128, BK: 8, WM: 64, WN: 64, TM: 8, TN: 16, Serpentine: true, Double: true},
	{BM: 64, BN: 64, BK: 8, WM: 32, WN: 64, TM: 8, TN: 8, Serpentine: true, Double: true},
	{BM: 64, BN: 64, BK: 8, WM: 32, WN: 32, TM: 8, TN: 4, Serpentine: true, Double: true},
	{BM: 64, BN: 64, BK: 16, WM: 32, WN: 32, TM: 8, TN: 4, Serpentine: true, Double: true},
	{BM: 32, BN: 64, BK: 8, WM: 32, WN: 32, TM: 8, TN: 4, Serpentine: true, Double: true},
	{BM: 32, BN: 64, BK: 16, WM: 16, WN: 32, TM: 4, TN: 4, Serpentine: true, Double: true},
	{BM: 32, BN: 32, BK: 16, WM: 16, WN: 32, TM: 4, TN: 4, Serpentine: true, Double: true},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "choices" {
		if err := choices(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	trial.Main(shape)
}

// product is a shape with its operands on the device: A, B, C, the sums where they are asked for, and scratch memory.
type product struct {
	*trial.Device
	name           string
	gemm           *launch.Gemm
	params         []uint64
	batch, m, n, k uint64
	bufs           []trial.Buffer
}

// scratchBytes bounds what the parts of a trial may take.
const scratchBytes = 64 << 20

// sumBytes is room for the parts' sums of an operand after the parts: 64 parts of 16,384 rows.
const sumBytes = 4 << 20

// shape times every tile and number of parts that suit a shape, and prints the best first.
func shape(d *trial.Device, name string) error {
	p := &product{Device: d, name: name, batch: 1}
	sizes, err := p.parse()
	if err != nil {
		return err
	}
	for i, size := range append(sizes, (scratchBytes+sumBytes)/4) {
		b, err := trial.Buffer{}, error(nil)
		if i < 2 {
			b, err = d.Random(size, uint64(i))
		} else {
			b, err = d.Empty(size)
		}
		if err != nil {
			return err
		}
		defer d.DestroyBuffer(b.Handle)
		p.bufs = append(p.bufs, b)
	}
	list, options, err := p.prepare()
	if err != nil {
		return err
	}
	if err := d.Race(list); err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b *trial.Program) int { return cmp.Compare(a.Seconds, b.Seconds) })
	for _, t := range list {
		o := options[t]
		fmt.Printf("%-18s %3dx%3dx%2d lanes %2dx%2d of %2dx%2d parts %d  %8.1f us  %5.1f TFLOP/s\n",
			name, o.BM, o.BN, o.BK, o.TM, o.TN, o.WM, o.WN, o.Parts, t.Seconds*1e6, p.flops()/t.Seconds/1e12)
		d.Release(t)
	}
	return nil
}

// prepare makes the programs of every tile and number of parts that suit the product.
func (p *product) prepare() ([]*trial.Program, map[*trial.Program]gpucode.GemmOptions, error) {
	m, n, k := p.m, p.n, p.k
	var list []*trial.Program
	options := map[*trial.Program]gpucode.GemmOptions{}
	for _, o := range trials {
		for _, parts := range []int{1, 2, 3, 4, 6, 8, 16, 32, 64} {
			groups := (m + uint64(o.BM) - 1) / uint64(o.BM) * ((n + uint64(o.BN) - 1) / uint64(o.BN)) * p.batch
			if parts > 8 && k < 16384 || parts > 1 && (groups*uint64(parts) > 1200 ||
				uint64(parts)*p.batch*m*n*4 > scratchBytes || k < uint64(parts*4*o.BK)) {
				continue
			}
			o.Parts, o.MaxWorkgroupBytes = parts, p.Limits().MaxWorkgroupBytes
			gpucode.Align(p.gemm, &o, p.params)
			procs, err := gpucode.FromGemm(p.gemm, o)
			if err != nil {
				fmt.Printf("%s %dx%dx%d %dx%d parts %d: %v\n", p.name, o.BM, o.BN, o.BK, o.TM, o.TN, parts, err)
				continue
			}
			t := &trial.Program{Reps: int(min(100, max(3, 0.004*35e12/p.flops())))}
			for _, proc := range procs {
				if err := p.Add(t, proc, p.params, p.bufs); err != nil {
					return nil, nil, err
				}
			}
			list, options[t] = append(list, t), o
		}
	}
	return list, options, nil
}
