// Package kerneltest makes random kernels, products, attention passes and sorts with operands, for tests that compare a
// code generator with the interpreter.
//
// Key types: [Case], from [Random] or the named constructors; [Close] compares results.
//
// Only tests import kerneltest.
package kerneltest
