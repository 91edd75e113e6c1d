// Package tile turns level 1 kernels and GEMM descriptors into level 2
// programs: it decides which thread does what.
//
// Key types: [Options] and [GemmOptions], chosen from sizes by [Choose] and
// [ChooseGemm] for a device's [Caps]; the generators are [FromKernel] and
// [FromGemm]. The text of a program depends on the options, never on sizes.
//
//	opts := tile.Choose(k, params, caps)
//	p, err := tile.FromKernel(k, opts)            // params of the launch: as k's
//	g := tile.ChooseGemm(gemm, params, caps)
//	p, err := tile.FromGemm(gemm, g)              // params of the launch: as kir.Gemm says
//	m, err := wgsl.Print(p, wopts)
//	grid := p.Grid(params)                        // a zero: nothing to launch
//
// tile imports kernels/kir and engine/ir; gpu imports tile.
package tile
