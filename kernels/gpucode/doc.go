// Package tile turns level 1 kernels and the descriptors of GEMM, attention and sorts into
// level 2 programs: it decides which thread does what.
//
// Key types: [Options], [GemmOptions] and [AttentionOptions], chosen from sizes by
// [Choose], [ChooseGemm] and [ChooseAttention] for a device's [Caps]; the generators are
// [FromKernel], [FromGemm] and [FromAttention]. The text of a program depends on the options, never on sizes.
//
//	opts := tile.Choose(k, params, caps)
//	procs, err := tile.FromKernel(k, opts)        // params of the launch: as k's
//	g := tile.ChooseGemm(gemm, params, caps)
//	procs, err := tile.FromGemm(gemm, g)          // params of the launch: as launch.Gemm says
//	m, err := wgsl.Print(procs[0], wopts)
//	grid := procs[0].Grid(params)                 // a zero: nothing to launch
//
// [GemmTrials] lists tiles that a device may time instead, for the products of a [GemmClass].
//
// A launch may take several programs, one a pass, run in order: few long rows, and
// products of few tiles and a long K, are shared between workgroups, whose partial
// results the next pass takes from scratch memory of ScratchBytes.
//
// tile imports kernels/loopir and ir; gpu imports tile.
package gpucode
