// Command opgen writes what is derived from the registry of operators and from the table of dtypes: the C tables of
// the argument parser, the Python stubs, the pages of operators and primitives, the dtype tables, and the manifest of
// the parity tests.
//
//	go run ./cmd/opgen -root .
//
// Every output is a function of the tables alone and byte-stable, so that a check can run the command again and
// compare. Start reading at main.go, which lists the outputs.
//
// opgen imports engine/op, engine/op/samples, engine/op/composite and ir; nothing imports it.
package main
