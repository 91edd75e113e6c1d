// Package samples reads the samples of the registry's entries: small calls in Python's notation.
//
// [Read] takes one sample's text and gives the decoded arguments. Tests of operators evaluate samples; the generator of
// the documentation asks them which dtypes an operator takes.
//
// samples imports engine/op, engine/op/prim and ir; cmd/opgen and tests import it.
package samples
