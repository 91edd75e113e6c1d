// Package plan turns a program into a plan: passes decide in-place stores, donated buffers and fused nodes, lower
// every node, and assign buffers.
//
// The passes are a table (passes.go), one file each, with a table of results each; the order is checked at start-up.
// A plan runs every program that is [program.Program.Same] as the one that it was built of, so a hit of the [Cache]
// does no more than compare.
//
// Key types: [Builder], [Plan] (how to run a program), [Cache]. plan imports ir, op, program, device and
// engine/lower, and never live: a plan can be built from text. exec and engine import it.
package compile
