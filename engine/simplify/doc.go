// Package simplify rewrites programs whose constants never change, before a session freezes their plans.
//
// A rewrite takes a program without stores: arguments first among its inputs, then constants. It returns another
// program with the same arguments and results. [Split] finds the nodes whose operands are all constant; a session
// computes them once. [Attention] and [Causal] find attention that is written out as products and a softmax, [Norms]
// normalization. [Scales] folds factors of channels into weights, [Shifts] adds up constants of channels, [Pads] makes
// borders padding of a convolution or pool. [Numbers] makes constants of one element numbers, and [Quantized] keeps
// weights in int8.
//
// simplify imports engine/program, engine/op/prim, kernels/loopir and ir; engine imports simplify.
package simplify
