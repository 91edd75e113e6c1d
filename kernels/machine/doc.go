// Package machine makes x86-64 machine code for elementwise operations over the lanes of a tile.
//
// A [Program] is straight-line code in SSA form: it loads operands, applies operations of the loop IR, and stores
// results. [Program.Load], [Program.Scalar], [Program.Const], [Program.Apply] and [Program.Store] build it; Apply
// reports an operation without a vector form, and the caller then keeps its block program. [Program.Assemble] gives a
// function
//
//	void code(void **table, int64_t lanes)
//
// with the System V calling convention. Entry i of the table points to the elements of operand or result i. The
// function computes lanes elements in blocks of 16 (AVX-512) or 8 (AVX2), with values in vector registers. It is a leaf
// and does not change MXCSR.
//
// Invariant: each operation gives the bits of the C kernels in kernels/cpu, except for the payloads of NaN.
//
// File select.go turns operations into instructions of one vector each (instr.go), allocate.go assigns registers and
// spills, asm.go encodes. Nothing here executes code, so the package compiles on every processor.
//
// machine imports kernels/loopir and ir; kernels/cpu imports machine.
package machine
