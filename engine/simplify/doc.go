// Package simplify rewrites programs whose constants never change, before a session freezes their plans.
//
// A rewrite takes a program without stores: arguments first among its inputs, then constants. It returns another
// program with the same arguments and results. [Split] finds what the constants alone decide; a session computes that
// once. [Attention] and [Causal] find attention that is written out, [Norms] normalization, [Scales] factors of
// channels, [Shifts] what is added to them, [Pads] borders around inputs of convolutions and
// pools, [Numbers] constants of one element, [Quantized] weights of int8.
package simplify
