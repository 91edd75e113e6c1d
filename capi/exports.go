package main

/*
#include "shim.h"
#include <string.h>
*/
import "C"

import (
	"sync"
	"time"
	"unsafe"

	"github.com/torchlette/torchlette/engine"
	"github.com/torchlette/torchlette/engine/op"
	"github.com/torchlette/torchlette/ir"
)

func main() {}

// view returns a C array as a Go slice, without a copy. For n <= 0 it returns nil and does not use the pointer, which
// may be null.
func view[T any, N ~int32 | ~uint64](p unsafe.Pointer, n N) []T {
	if n <= 0 {
		return nil
	}
	return unsafe.Slice((*T)(p), int(n))
}

// opNames maps full names to operator numbers. All operators are registered before an export can be called.
var opNames = sync.OnceValue(func() map[string]op.OpID {
	m := map[string]op.OpID{}
	for _, d := range op.Defs() {
		m[d.Parsed.Full] = d.ID
	}
	return m
})

// instance is the process's engine.
var instance = sync.OnceValue(engine.Default)

var opsHash = sync.OnceValue(op.Hash)

//export tlgo_ops_hash
func tlgo_ops_hash() C.uint32_t { return C.uint32_t(opsHash()) }

//export tlgo_op_find
func tlgo_op_find(name *C.char, id *C.uint16_t) (st C.int32_t) {
	defer guard("tl_op_find", 0, &st)
	full := C.GoString(name)
	n, ok := opNames()[full]
	if !ok {
		return failed(ir.Errorf(ir.ErrValue, "tl_op_find: no operator %q", full))
	}
	*id = C.uint16_t(n)
	return 0
}

//export tlgo_op
func tlgo_op(c *C.tl_call, out *C.tl_out, limit C.int32_t, n *C.int32_t) (st C.int32_t) {
	defer guard("tl_op", op.OpID(c.op), &st)
	d := call{ // on the stack: Op does not keep it
		Op:        op.OpID(c.op),
		Mode:      uint8(c.mode),
		SourceLoc: uint32(c.source_loc),
		In:        view[uint64](unsafe.Pointer(c.in), c.n_in),
		Ints:      view[int64](unsafe.Pointer(c.ints), c.n_ints),
		Scalars:   view[scalar](unsafe.Pointer(c.scalars), c.n_scalars),
		Outs:      view[uint64](unsafe.Pointer(c.outs), c.n_outs),
		Drop:      view[uint64](unsafe.Pointer(c.drop), c.n_drop),
		Deferred:  view[queued](unsafe.Pointer(c.queued), c.n_queued),
	}
	k, err := instance().Op(&d, view[result](unsafe.Pointer(out), limit))
	*n = C.int32_t(k)
	return failed(err)
}

//export tlgo_reserve
func tlgo_reserve(hs *C.uint64_t, n C.int32_t) (st C.int32_t) {
	defer guard("tl_reserve", 0, &st)
	instance().Reserve(view[uint64](unsafe.Pointer(hs), n))
	return 0
}

//export tlgo_record
func tlgo_record(calls *C.tl_deferred, n C.int32_t, drop *C.uint64_t, nDrop C.int32_t) (st C.int32_t) {
	defer guard("tl_record", 0, &st)
	instance().Record(view[queued](unsafe.Pointer(calls), n), view[uint64](unsafe.Pointer(drop), nDrop))
	return 0
}

//export tlgo_from_data
func tlgo_from_data(dtype, device C.uint8_t, rank C.int32_t, shape *C.int64_t, data unsafe.Pointer, bytes C.size_t,
	flags, sourceLoc C.uint32_t, out *C.tl_out) (st C.int32_t) {
	defer guard("tensor", 0, &st)
	return failed(instance().FromData(ir.DType(dtype), ir.DeviceID(device), view[int64](unsafe.Pointer(shape), rank),
		view[byte](data, bytes), flags&C.TL_REQUIRES_GRAD != 0, uint32(sourceLoc), (*result)(unsafe.Pointer(out))))
}

//export tlgo_force
func tlgo_force(h C.uint64_t, slice C.int64_t) (st C.int32_t) {
	defer guard("tl_force", 0, &st)
	return sliced(instance().Force(uint64(h), time.Duration(slice)))
}

//export tlgo_realize
func tlgo_realize(hs *C.uint64_t, n C.int32_t, slice C.int64_t) (st C.int32_t) {
	defer guard("tl_realize", 0, &st)
	return sliced(instance().Realize(view[uint64](unsafe.Pointer(hs), n), time.Duration(slice)))
}

//export tlgo_read
func tlgo_read(h C.uint64_t, dst unsafe.Pointer, bytes C.size_t) (st C.int32_t) {
	defer guard("tl_read", 0, &st)
	return failed(instance().Read(uint64(h), view[byte](dst, bytes)))
}

//export tlgo_read_within
func tlgo_read_within(h C.uint64_t, dst unsafe.Pointer, bytes C.size_t, slice C.int64_t) (st C.int32_t) {
	defer guard("tl_read_within", 0, &st)
	return sliced(instance().ReadWithin(uint64(h), view[byte](dst, bytes), time.Duration(slice)))
}

//export tlgo_copy_to_host
func tlgo_copy_to_host(h C.uint64_t, slice C.int64_t) (st C.int32_t) {
	defer guard("tl_copy_to_host", 0, &st)
	return sliced(instance().CopyToHost(uint64(h), time.Duration(slice)))
}

//export tlgo_interrupt
func tlgo_interrupt(patience C.int64_t) (st C.int32_t) {
	defer guard("tl_interrupt", 0, &st)
	instance().Interrupt(time.Duration(patience))
	return 0
}

//export tlgo_export_buffer
func tlgo_export_buffer(h C.uint64_t, pin C.int32_t, data *unsafe.Pointer, export *C.uint64_t) (st C.int32_t) {
	defer guard("tl_export_buffer", 0, &st)
	p, id, err := instance().ExportBuffer(uint64(h), pin != 0)
	*data, *export = p, C.uint64_t(id)
	return failed(err)
}

//export tlgo_release_export
func tlgo_release_export(export C.uint64_t) (st C.int32_t) {
	defer guard("__dlpack__", 0, &st)
	instance().ReleaseExport(uint64(export))
	return 0
}

//export tlgo_from_memory
func tlgo_from_memory(dtype C.uint8_t, rank C.int32_t, shape, stride *C.int64_t, data unsafe.Pointer, flags C.uint32_t,
	owner C.uint64_t, sourceLoc C.uint32_t, out *C.tl_out, export *C.uint64_t) (st C.int32_t) {
	defer guard("tl_from_memory", 0, &st)
	m := engine.Memory{DType: ir.DType(dtype), Shape: view[int64](unsafe.Pointer(shape), rank),
		Stride: view[int64](unsafe.Pointer(stride), rank), P: data, ReadOnly: flags&C.TL_READ_ONLY != 0,
		Pages: flags&C.TL_PAGES != 0, Owner: uint64(owner)}
	id, err := instance().FromMemory(&m, uint32(sourceLoc), (*result)(unsafe.Pointer(out)))
	*export = C.uint64_t(id)
	return failed(err)
}

//export tlgo_private
func tlgo_private(export C.uint64_t) (st C.int32_t) {
	defer guard("tl_private", 0, &st)
	instance().Private(uint64(export))
	return 0
}

//export tlgo_sole
func tlgo_sole(export C.uint64_t, sole *C.int32_t) (st C.int32_t) {
	defer guard("tl_sole", 0, &st)
	*sole = 0
	if instance().Sole(uint64(export)) {
		*sole = 1
	}
	return 0
}

//export tlgo_owners
func tlgo_owners(owners *C.uint64_t, n C.int32_t, count *C.int32_t) (st C.int32_t) {
	defer guard("tl_owners", 0, &st)
	*count = C.int32_t(instance().Owners(view[uint64](unsafe.Pointer(owners), n)))
	return 0
}

//export tlgo_numbers
func tlgo_numbers(hs *C.uint64_t, values *C.double, n, mode C.int32_t, done *C.int32_t) (st C.int32_t) {
	defer guard("tl_numbers", 0, &st)
	k, err := instance().Numbers(view[uint64](unsafe.Pointer(hs), n), view[float64](unsafe.Pointer(values), n), int(mode))
	*done = C.int32_t(k)
	return failed(err)
}

//export tlgo_writes
func tlgo_writes(count *C.uint64_t) (st C.int32_t) {
	defer guard("tl_writes", 0, &st)
	*count = C.uint64_t(instance().Writes())
	return 0
}

//export tlgo_mark_step
func tlgo_mark_step(slice C.int64_t) (st C.int32_t) {
	defer guard("mark_step", 0, &st)
	return sliced(instance().MarkStep(time.Duration(slice)))
}

//export tlgo_flush
func tlgo_flush() (st C.int32_t) {
	defer guard("flush", 0, &st)
	return failed(instance().Flush())
}

//export tlgo_idle
func tlgo_idle(slice C.int64_t) (st C.int32_t) {
	defer guard("tl_idle", 0, &st)
	return sliced(instance().Idle(time.Duration(slice)), nil)
}

//export tlgo_flush_within
func tlgo_flush_within(due C.int32_t, slice C.int64_t) (st C.int32_t) {
	defer guard("flush", 0, &st)
	return sliced(instance().FlushWithin(due != 0, time.Duration(slice)))
}

//export tlgo_meta_of
func tlgo_meta_of(h C.uint64_t, m *C.tl_meta) (st C.int32_t) {
	defer guard("tl_meta_of", 0, &st)
	g, err := instance().Meta(uint64(h))
	if err != nil {
		return failed(err)
	}
	m.dtype, m.device, m.rank = C.uint8_t(g.DType), C.uint8_t(g.Device), C.uint8_t(len(g.Shape))
	m.flags, m.source_loc, m.on_host = C.uint32_t(g.Flags), C.uint32_t(g.SourceLoc), 0
	if g.OnHost {
		m.on_host = 1
	}
	m.base, m.commits, m.offset, m.storage = C.uint64_t(g.Base), C.uint64_t(g.Commits), C.int64_t(g.Offset),
		C.int64_t(g.Storage)
	copy(view[int64](unsafe.Pointer(&m.shape), C.int32_t(len(m.shape))), g.Shape)
	copy(view[int64](unsafe.Pointer(&m.stride), C.int32_t(len(m.stride))), g.Stride)
	writeString(view[byte](unsafe.Pointer(&m.grad_fn), C.int32_t(len(m.grad_fn))), g.GradFn)
	return 0
}

// writeString writes s and a terminating zero to dst, and cuts s to fit.
func writeString(dst []byte, s string) {
	if len(dst) == 0 {
		return
	}
	dst[copy(dst[:len(dst)-1], s)] = 0
}

//export tlgo_release
func tlgo_release(hs *C.uint64_t, n C.int32_t) (st C.int32_t) {
	defer guard("tl_release", 0, &st)
	instance().Release(view[uint64](unsafe.Pointer(hs), n))
	return 0
}

//export tlgo_dispose
func tlgo_dispose(h C.uint64_t) (st C.int32_t) {
	defer guard("dispose", 0, &st)
	instance().Dispose(uint64(h))
	return 0
}

//export tlgo_tidy
func tlgo_tidy(begin C.int32_t, returned *C.uint64_t, n C.int32_t) (st C.int32_t) {
	defer guard("tidy", 0, &st)
	if begin != 0 {
		instance().TidyBegin()
	} else {
		instance().TidyEnd(view[uint64](unsafe.Pointer(returned), n))
	}
	return 0
}

//export tlgo_keep
func tlgo_keep(h C.uint64_t) (st C.int32_t) {
	defer guard("keep", 0, &st)
	return failed(instance().Keep(uint64(h)))
}

//export tlgo_site
func tlgo_site(file, fn *C.char, line C.int32_t) C.uint32_t {
	var st C.int32_t
	defer guard("tl_site", 0, &st)
	return C.uint32_t(instance().SourceLoc(C.GoString(file), C.GoString(fn), int(line)))
}

//export tlgo_site_string
func tlgo_site_string(sourceLoc C.uint32_t, dst *C.char, capacity C.size_t) (st C.int32_t) {
	defer guard("tl_site_string", 0, &st)
	writeString(view[byte](unsafe.Pointer(dst), capacity), instance().SourceLocString(uint32(sourceLoc)))
	return 0
}

//export tlgo_set_mode
func tlgo_set_mode(mode C.int32_t, value C.int64_t, old *C.int64_t) (st C.int32_t) {
	defer guard("tl_set_mode", 0, &st)
	v := instance().SetMode(engine.Mode(mode), int64(value))
	if old != nil {
		*old = C.int64_t(v)
	}
	return 0
}

//export tlgo_thread
func tlgo_thread(id C.uint64_t, ended C.int32_t) (st C.int32_t) {
	defer guard("tl_thread", 0, &st)
	if ended != 0 {
		instance().EndThread(uint64(id))
	} else {
		instance().Thread(uint64(id))
	}
	return 0
}

//export tlgo_rng
func tlgo_rng(action C.int32_t, state *C.uint64_t) (st C.int32_t) {
	defer guard("tl_rng", 0, &st)
	switch action {
	case C.TL_RNG_SEED:
		instance().Seed(int64(*state))
	case C.TL_RNG_GET:
		s := instance().RNGState()
		copy(view[uint64](unsafe.Pointer(state), C.int32_t(4)), s[:])
	case C.TL_RNG_SET:
		instance().SetRNGState([4]uint64(view[uint64](unsafe.Pointer(state), C.int32_t(4))))
	default:
		return failed(ir.Errorf(ir.ErrValue, "tl_rng: unknown action: got %d, want 0, 1 or 2", action))
	}
	return 0
}

//export tlgo_info
func tlgo_info(kind *C.char, h C.uint64_t, json **C.char, bytes *C.size_t) (st C.int32_t) {
	defer guard("tl_info", 0, &st)
	b, err := instance().Info(C.GoString(kind), uint64(h))
	if err != nil {
		return failed(err)
	}
	*json, *bytes = C.CString(string(b)), C.size_t(len(b))
	return 0
}

//export tlgo_set_option
func tlgo_set_option(key, value *C.char) (st C.int32_t) {
	defer guard("tl_set_option", 0, &st)
	return failed(instance().SetOption(C.GoString(key), C.GoString(value)))
}

//export tlgo_reset
func tlgo_reset() (st C.int32_t) {
	defer guard("reset", 0, &st)
	return failed(instance().Reset())
}
