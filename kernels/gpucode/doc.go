// Package gpucode generates GPU programs: it takes loop kernels and the descriptors of products, attention and sorts,
// and decides which thread does what.
//
// [Options], [GemmOptions] and [AttentionOptions] hold the decisions. [Choose], [ChooseGemm] and [ChooseAttention] take
// them from sizes and a device's [Caps]; the generators are [FromKernel], [FromGemm] and [FromAttention].
//
//	opts := gpucode.Choose(k, params, caps)
//	procs, err := gpucode.FromKernel(k, opts)     // parameters of the launch: those of k
//	g := gpucode.ChooseGemm(gemm, params, caps)
//	procs, err := gpucode.FromGemm(gemm, g)       // parameters of the launch: as launch.Gemm says
//	m, err := wgsl.Print(procs[0], wopts)
//	grid := procs[0].Grid(params)                 // a zero: nothing to launch
//
// [GemmTrials] lists the tiles that a device may time instead, for the products of a [GemmClass].
//
// Invariant: the text of a program depends on the options, never on sizes.
//
// A launch may take several programs, run in order, one a pass. Few long rows, and products of few tiles and a long K,
// are shared between workgroups, which leave partial results in scratch memory of ScratchBytes for the next pass.
//
// Start reading at kernel.go (loop kernels) or gemm.go (products); *_heuristics.go choose options.
//
// gpucode imports kernels/launch, kernels/gpuir, kernels/loopir and ir; gpu imports gpucode.
package gpucode
