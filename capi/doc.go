// Command capi is the C ABI of the engine, built with -buildmode=c-shared.
//
// It holds no logic. Each export decodes its C arguments, calls the engine's
// facade and encodes the result. Every export has three layers:
//
//   - tl_op in exports_gen.c (generated): the symbol a C program links to. It refuses
//     to enter Go in a forked child, where the Go runtime's threads are gone.
//   - tlgo_op in exports.go: decoding, inside the one panic guard of guard.go.
//   - the method of engine.Engine.
//
// A status is 0, TL_PENDING (call again; used to slice waits) or a code of ir.Code, and
// then tl_last_error describes the failure; that record is local to the thread.
//
// torchlette.h and exports_gen.c come from one table in cmd/abigen. The structs of
// the hot path (tl_scalar, tl_out, tl_event) have the memory layout of their Go
// counterparts, which layout.go checks at compile time: arrays cross without copying.
//
// capi may import engine and what registers devices; nothing imports capi.
package main

//go:generate go run ../cmd/abigen
