// Package optest has an [op.Builder] that computes at once, on host bytes, by lowering
// each primitive and interpreting its kernels. Tests of primitives, lowerings and
// operators use it to see values and gradients without an engine.
//
// Key types: [Eager], with [Eager.Backward]; [Run] executes one lowered node;
// [CheckGrad] holds gradients of first and second order against central differences.
// Only tests may import it.
package optest
