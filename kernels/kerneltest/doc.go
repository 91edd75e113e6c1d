// Package kirtest makes random kernels with operands, for tests that hold a
// consumer of loop IR against the interpreter.
//
// Key types: [Case], from [Random] or the named forms; [Close] compares
// results. Only tests import it.
package kerneltest
