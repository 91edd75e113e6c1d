// Command abigen writes capi's torchlette.h and exports_gen.c
// from the tables in table.go and the registry of operators.
//
// Nothing imports it; it imports engine/op and ir.
package main
