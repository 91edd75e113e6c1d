// Package gpuir is the GPU IR: programs of a workgroup, between the loop IR and
// shader text.
//
// A [Program] is a list of statements over the scalar expressions of kernels/loopir,
// with workgroup memory, barriers, subgroup shuffles and vector loads. Generators in
// kernels/gpucode make programs; kernels/wgsl prints them. [Program.Verify] checks a
// program, and [Program.Interpret] runs it thread by thread and finds data races.
//
// gpuir imports ir and kernels/loopir.
package gpuir
