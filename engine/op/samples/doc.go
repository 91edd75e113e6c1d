// Package samples reads the samples of the registry's entries: small calls in Python's notation.
//
// Key functions: [Read], which gives the decoded arguments of one. Tests of the operators evaluate them, and the
// generator of the documentation asks which dtypes an operator takes.
package samples
