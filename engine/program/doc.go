// Package program is the engine's programs as data: a closed graph of primitives with its operands' views, numbers,
// inputs, stores, results and draws.
//
// One type serves every use: the window that engine/compile turns into a plan, a function captured from a recording,
// and the text that tests and dumps read.
//
// Invariants: a [Program] holds no pointer into a session. Its nodes, operands, inputs, stores, results and draws
// identify it ([Program.Same], [Program.Hash]). Offsets of views and numbers vary from run to run and are no part of
// its identity; source locations serve messages only.
//
// Text form: [Program.String] and [Parse] are inverses. One line is one item:
//
//	input $0 : f32[2,3]                     constant and state likewise
//	draws 1                                 how many offsets of the random generator a call takes
//	%0 = add $0 2.0 : f32[2,3] live         node: primitive, operands, dtype and shape of its result, what else holds it
//	%1 = sum{0} %0[3,2](1,3)+0 : f32[2]     attributes in braces; a view: sizes, strides where they are not dense, offset
//	%2 = exp %1 : f32[2] region 1                recorded in the window's first compiled region
//	%2 = extremum_dim{max_dim,0} $0 : f32[3]
//	%3 = result{1} %2 : i64[3]              the further results of a primitive
//	store %0 over $0 base 0 last exclusive  a write, in order
//	return %1 %0[3,2](1,3)=$0               the results of a function; =$0: an alias of that input
//
// A number is written as the dtype of its slot says, or by its bits (0x...). Text after # is a comment.
//
// Start reading at program.go; then text.go, verify.go and identity.go.
//
// program imports ir, engine/op and engine/op/prim; engine/lazy, which collects and captures programs, and
// engine/compile import program.
package program
