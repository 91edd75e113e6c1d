package main

/*
#include "shim.h"
#include <math.h>
*/
import "C"

import (
	"unsafe"

	"github.com/torchlette/torchlette/engine"
	"github.com/torchlette/torchlette/engine/saved"
	"github.com/torchlette/torchlette/ir"
)

func init() {
	// The power of the C library, as Python's: the last bits of Go's differ.
	saved.Pow = func(a, b float64) float64 { return float64(C.pow(C.double(a), C.double(b))) }
}

//export tlgo_export_begin
func tlgo_export_begin(args *C.uint64_t, n C.int32_t, known *C.uint64_t, nKnown C.int32_t,
	placeholders *C.tl_out) (st C.int32_t) {
	defer guard("export", 0, &st)
	return failed(instance().BeginExport(view[uint64](unsafe.Pointer(args), n),
		view[uint64](unsafe.Pointer(known), nKnown), view[result](unsafe.Pointer(placeholders), n)))
}

//export tlgo_export_end
func tlgo_export_end(keep C.int32_t, results *C.uint64_t, n C.int32_t, json **C.char, bytes *C.size_t,
	constants *C.tl_out, limit C.int32_t, count *C.int32_t) (st C.int32_t) {
	defer guard("export", 0, &st)
	text, list, err := instance().EndExport(keep != 0, view[uint64](unsafe.Pointer(results), n))
	if err != nil || keep == 0 {
		return failed(err)
	}
	out := view[result](unsafe.Pointer(constants), limit)
	if len(list) > len(out) {
		for _, c := range list {
			instance().Release([]uint64{c.Handle})
		}
		return failed(ir.Errorf(ir.ErrValue, "export: the function takes %d tensors from outside, want at most %d",
			len(list), len(out)))
	}
	copy(out, list)
	*count = C.int32_t(len(list))
	*json, *bytes = C.CString(string(text)), C.size_t(len(text))
	return 0
}

//export tlgo_program_parse
func tlgo_program_parse(json *C.char, bytes C.size_t, id *C.uint64_t) (st C.int32_t) {
	defer guard("saved program", 0, &st)
	k, err := instance().ParseProgram([]byte(C.GoStringN(json, C.int(bytes))))
	*id = C.uint64_t(k)
	return failed(err)
}

//export tlgo_program_open
func tlgo_program_open(path *C.char, id *C.uint64_t) (st C.int32_t) {
	defer guard("saved program", 0, &st)
	k, err := instance().OpenProgram(C.GoString(path))
	*id = C.uint64_t(k)
	return failed(err)
}

//export tlgo_program_constant
func tlgo_program_constant(id C.uint64_t, i C.int32_t, out *C.tl_out) (st C.int32_t) {
	defer guard("saved program", 0, &st)
	return failed(instance().ProgramConstant(uint64(id), int(i), (*result)(unsafe.Pointer(out))))
}

//export tlgo_program_run
func tlgo_program_run(id C.uint64_t, function *C.char, tensors *C.uint64_t, nInputs, nConstants C.int32_t,
	numbers *C.double, nNumbers, evaluation C.int32_t, outs *C.tl_out, limit C.int32_t,
	count *C.int32_t) (st C.int32_t) {
	defer guard("saved program", 0, &st)
	p, f, err := functionOf(id, function)
	if err != nil {
		return failed(err)
	}
	all, out := view[uint64](unsafe.Pointer(tensors), nInputs+nConstants), view[result](unsafe.Pointer(outs), limit)
	if len(f.Outputs) > len(out) {
		return failed(ir.Errorf(ir.ErrValue, "saved program: results: got room for %d, want %d", len(out), len(f.Outputs)))
	}
	list, err := instance().RunProgram(&engine.ProgramRun{Program: p, Function: f, Inputs: all[:nInputs],
		Constants: all[nInputs:], Numbers: view[float64](unsafe.Pointer(numbers), nNumbers), Evaluation: evaluation != 0})
	copy(out, list)
	*count = C.int32_t(len(list))
	return failed(err)
}

//export tlgo_program_numbers
func tlgo_program_numbers(id C.uint64_t, function *C.char, numbers *C.double, n C.int32_t, supplied *C.double,
	limit C.int32_t, after *C.double, count *C.int32_t) (st C.int32_t) {
	defer guard("saved program", 0, &st)
	p, f, err := functionOf(id, function)
	if err != nil {
		return failed(err)
	}
	if int(n) != len(p.Numbers) || int(limit) < len(f.Supplied) {
		return failed(ir.Errorf(ir.ErrValue, "saved program: numbers: got %d and room for %d, want %d and %d", n, limit,
			len(p.Numbers), len(f.Supplied)))
	}
	given, next, fits := f.Compute(p, view[float64](unsafe.Pointer(numbers), n))
	if *count = -1; fits {
		*count = C.int32_t(copy(view[float64](unsafe.Pointer(supplied), limit), given))
		copy(view[float64](unsafe.Pointer(after), n), next)
	}
	return 0
}

// functionOf returns a function of an opened program.
func functionOf(id C.uint64_t, function *C.char) (*saved.Program, *saved.Function, *ir.Error) {
	p, err := instance().ProgramOf(uint64(id))
	if err != nil {
		return nil, nil, err
	}
	f := p.Functions[C.GoString(function)]
	if f == nil {
		return nil, nil, ir.Errorf(ir.ErrValue, "saved program: it has no function %q", C.GoString(function))
	}
	return p, f, nil
}
