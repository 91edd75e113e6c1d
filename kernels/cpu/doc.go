// Package cpu is the CPU device: it runs programs of kernel, GEMM, attention and sort steps on
// vectors of the processor.
//
// Go plans, C runs. [New] makes the device; Build compiles each loopir.Kernel into
// a block program (see plan.go: dims are collapsed, a tile of about 1,024 lanes is
// chosen, expressions become instructions over registers that stay in the L1 cache)
// and lays it out as C structs; Run is one call into runner.c for the whole program,
// without Go allocation. The instructions are compiled several times (kern_*.c) and
// chosen by the processor's feature bits. Loops are shared by a pool of threads
// (pool.c); results do not depend on the number of threads or on their timing.
//
// A launch of a kind that this package does not know may bring its own code ([Generator]).
//
// capi imports this package; it imports kernels/device, ir and kernels/loopir.
package cpu
