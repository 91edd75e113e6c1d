// Package saved holds programs at the level of operators: what torchlette.export makes, a file keeps, and a session
// runs.
//
// A [Program] has named constants, named dims, and functions. A [Function] is a list of steps, each a call of an
// operator by its full name with named arguments. Sizes and numbers may be expressions ([Expr]) of the dims and of the
// numbers that the caller supplies. [Parse] reads the text of a program and checks it whole; [Open] reads a file. Both
// reject a text that refers to an operator, value or dim that does not exist.
//
// The engine binds a [Function] to tensors and calls its operators as a user would.
//
// saved imports engine/op and ir; engine imports saved.
package saved
