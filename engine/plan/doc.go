// Package plan turns a window of recorded work into a plan: it collects the
// closure in record order, makes its key, and, on a miss, decides in-place stores,
// assigns buffer slots and lowers every node.
//
// A hit does no more than collect and compare. The plan that a miss builds is what
// every later hit runs.
//
// Key types: [Window] (what is to run now), [Plan] (how, for every window of that
// key), [Cache]. plan imports ir, op, live, device and kernels/lower; exec and
// engine import it.
package plan
