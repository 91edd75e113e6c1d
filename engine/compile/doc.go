// Package compile turns a program into a plan.
//
// A [Builder] takes a [program.Program] and a device's capabilities. Its passes decide in-place stores, donated
// buffers and fused nodes, lower every node, and assign buffers. The result is a [Plan]: launches, buffers and
// parameters for every run of such a program. A [Cache] finds the plan of a program again.
//
// Invariants: a plan runs every program that is [program.Program.Same] as the one it was built from. No pass changes
// the program. compile never imports engine/lazy: a plan can be built from text.
//
// Start reading at passes.go: the table of passes, one file each; the order is checked at start-up.
//
// compile imports ir, engine/op, engine/op/prim, engine/program, engine/lower and kernels/device; engine/runtime and
// engine import compile.
package compile
