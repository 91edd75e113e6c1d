// Package optest has an [op.Builder] that computes at once, on host bytes: it lowers each primitive and interprets the
// launches. Tests of primitives, lowerings and operators use it to see values and gradients without an engine.
//
// Key types: [Eager], with [Eager.Backward]. [Run] executes one lowered node; [CheckGrad] compares gradients of first
// and second order with central differences.
//
// Only tests import optest.
package optest
