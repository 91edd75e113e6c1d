// Package cpu is the CPU device: it runs programs of launches on the vector units of the processor.
//
// Go plans, C runs. [New] makes the device. [Device.Build] takes a list of steps and gives a program: it compiles each
// loopir.Kernel into a block program and lays it out as C structs. [Device.Run] is one call into program.c for the
// whole program, without Go allocation.
//
// A block program works a kernel tile by tile: dims are collapsed, a tile of about 1,024 lanes is chosen (tiling.go),
// and expressions become instructions over registers that stay in the L1 cache (codegen.go). Neighbouring maps are
// worked tile by tile together (tile_fusion.go). Products, attention, factorisations and sorts have C code of their own
// (gemm.c, attention.c, linalg.c, sort.c). The instructions are compiled once for each instruction set (package vector)
// and chosen by the processor's feature bits. In kernels that run hot, machine code takes the place of neighbouring
// elementwise instructions (hot.go, machine_code.go).
//
// Invariant: results do not depend on the number of threads or on their timing. Loops are shared by a pool of threads
// (pool.c): each has the same share of like loops, and steals from the others when it is done.
//
// A kind of launch that this package does not know may bring its own code ([Generator]).
//
// Start reading at build.go; then tiling.go and codegen.go, and vector/cpu.h for the C side.
//
// cpu imports kernels/cpu/vector, kernels/device, kernels/launch, kernels/machine, kernels/loopir and ir; capi imports
// cpu.
package cpu
