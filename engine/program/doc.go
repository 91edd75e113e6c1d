// Package program is the engine's programs as data: a closed graph of primitives with its operands' views, numbers,
// inputs, stores, results and draws.
//
// One type serves every use: the window that the planner turns into a plan, a function captured from a recording, and
// the text that tests and dumps read. A [Program] holds no pointer into a session.
//
// What identifies a program are its nodes, operands, inputs, stores, results and draws ([Program.Same],
// [Program.Hash]). Offsets of views and numbers vary from run to run and are no part of it; call sites are for
// messages only.
//
// Text form: [Program.String] and [Parse] are inverses. One line is one item:
//
//	input $0 : f32[2,3]                     constant and state likewise
//	draws 1                                 how many offsets of the random generator a call takes
//	%0 = add $0 2.0 : f32[2,3] live         node: primitive, operands, dtype and shape of its result, what else holds it
//	%1 = sum{0} %0[3,2](1,3)+0 : f32[2]     attributes in braces; a view: sizes, strides where they are not dense, offset
//	%2 = extremum_dim{max_dim,0} $0 : f32[3]
//	%3 = result{1} %2 : i64[3]              the further results of a primitive
//	store %0 over $0 base 0 last exclusive  a write, in order
//	return %1 %0[3,2](1,3)=$0               the results of a function; =$0: an alias of that input
//
// A number is written as the dtype of its slot says, or by its bits (0x...). Text after # is a comment.
//
// program imports ir, op and op/prim; live (which collects and captures programs) and plan (which plans them) import
// it.
package program
