// Command abigen writes capi's torchlette.h and exports_gen.c from the tables in table.go and the registry of
// operators.
//
//	cd capi && go run ../cmd/abigen
//
// The output is a function of the tables alone and byte-stable, so that a check can run the command again and compare.
//
// abigen imports engine/op, engine/op/composite and ir; nothing imports it.
package main
