// Command gen writes what is derived from the operator table: the C tables of the
// argument parser, the Python stubs, the operators page and the parity tests'
// manifest. Every output is a function of the table alone and byte-stable, so a
// check can run it again and compare.
//
//	go run ./cmd/opgen -root .
//
// It imports op, op/samples and op/composite; nothing imports it.
package main
