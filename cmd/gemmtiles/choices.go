package main

import (
	"fmt"

	"github.com/torchlette/torchlette/cmd/internal/trial"
	"github.com/torchlette/torchlette/gpu"
	"github.com/torchlette/torchlette/gpu/wgpu"
	"github.com/torchlette/torchlette/kernels/device"
	"github.com/torchlette/torchlette/kernels/gpucode"
)

// rows are the products that choices measures where no shapes are given.
var rows = []string{"4096x4096x4096", "2048x2048x2048", "1024x1024x1024", "512x512x512", "512x3072x768",
	"512x3072x768nt", "512x50257x768", "512x50257x768nt", "50257x768x512", "50257x768x512nt"}

// choices prints what the device's autotuner chooses for each shape, beside the table's choice.
func choices(names []string) error {
	if len(names) == 0 {
		names = rows
	}
	d, err := gpu.Open(&wgpu.Driver{}, gpu.Options{Adapter: "0", Hardware: true, Autotune: true, CacheDir: "-",
		WaitTimeout: trial.Patience})
	if err != nil {
		return err
	}
	defer d.Close()
	fmt.Println(d.Caps().Adapter, d.Caps().Driver)
	for _, name := range names {
		p := &product{name: name, batch: 1}
		if _, err := p.parse(); err != nil {
			return err
		}
		st := device.Step{Op: p.gemm}
		for _, v := range p.params {
			st.Params = append(st.Params, device.Const(int64(v)))
		}
		for i := range p.gemm.Layout().Bufs {
			st.Bufs = append(st.Bufs, i)
		}
		program, err := d.Build([]device.Step{st}, len(st.Bufs))
		if err != nil {
			return err
		}
		program.Release()
		c, ok := d.Tuned()[gpucode.GemmClass(p.gemm, p.params)]
		if !ok {
			fmt.Printf("%-18s was not timed\n", name)
			continue
		}
		fmt.Printf("%-18s table %-45s %9.1f us  tuned %-45s %9.1f us %5.1f TFLOP/s  ratio %.3f\n", name, c.Table,
			c.TableMicroseconds, c.Tile, c.Microseconds, p.flops()/c.Microseconds/1e6, c.Microseconds/c.TableMicroseconds)
	}
	return nil
}
