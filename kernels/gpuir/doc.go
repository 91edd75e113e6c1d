// Package gpuir is the GPU IR: the program of one workgroup, between the loop IR and shader text.
//
// A [Program] is a list of statements over the scalar expressions of kernels/loopir, with workgroup memory, barriers,
// subgroup shuffles and vector loads. Generators in kernels/gpucode make programs; kernels/wgsl prints them.
//
// Invariant: every program passes [Verify]. [Interpret] runs a program thread by thread and reports data races.
//
// Start reading at node.go (statements); then program.go (programs) and merge.go (several programs in one dispatch).
//
// gpuir imports ir and kernels/loopir.
package gpuir
