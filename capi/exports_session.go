package main

/*
#include "shim.h"
*/
import "C"

import (
	"sync"
	"time"
	"unsafe"

	"github.com/torchlette/torchlette/engine"
	"github.com/torchlette/torchlette/ir"
)

// outputs is the memory for the outputs of a session, in C.
type outputs struct {
	mu   sync.Mutex
	data []unsafe.Pointer
	room []int64
}

// sessionOutputs maps sessions to the memory that tl_session_run gives, trainingReads training sessions to that of
// tl_training_read; it is made by the first such call.
var sessionOutputs, trainingReads sync.Map

// memory gives room for output k.
func (o *outputs) memory(k int, bytes int64) unsafe.Pointer {
	for len(o.data) <= k {
		o.data, o.room = append(o.data, nil), append(o.room, 0)
	}
	if o.room[k] < max(bytes, 1) {
		C.tlgo_free_c(o.data[k])
		o.data[k], o.room[k] = C.tlgo_alloc_c(C.size_t(max(bytes, 1))), max(bytes, 1)
		if o.data[k] == nil {
			o.room[k] = 0
		}
	}
	return o.data[k]
}

// deviceOrCPU returns the device of a name; NULL is the CPU.
func deviceOrCPU(name *C.char) (ir.DeviceID, *ir.Error) {
	if name == nil {
		return ir.CPU, nil
	}
	return deviceNamed(C.GoString(name))
}

//export tlgo_session_open
func tlgo_session_open(path, device *C.char, threads C.int32_t, session *C.uint64_t) (st C.int32_t) {
	defer guard("tl_session_open", 0, &st)
	dev, err := deviceOrCPU(device)
	if err != nil {
		return failed(err)
	}
	id, err := instance().OpenSession(C.GoString(path), engine.SessionOptions{Device: dev, Threads: int(threads)})
	*session = C.uint64_t(id)
	return failed(err)
}

//export tlgo_session_of
func tlgo_session_of(program C.uint64_t, constants *C.uint64_t, n C.int32_t, device C.uint8_t, threads C.int32_t,
	precision C.uint8_t, sole C.int32_t, session *C.uint64_t) (st C.int32_t) {
	defer guard("tl_session_of", 0, &st)
	id, err := instance().OpenSessionOf(uint64(program), view[uint64](unsafe.Pointer(constants), n),
		engine.SessionOptions{Device: ir.DeviceID(device), Threads: int(threads), Precision: ir.DType(precision),
			Sole: sole != 0})
	*session = C.uint64_t(id)
	return failed(err)
}

//export tlgo_session_describe
func tlgo_session_describe(session C.uint64_t, outs C.int32_t, values *C.tl_session_value, limit C.int32_t,
	n *C.int32_t) (st C.int32_t) {
	defer guard("tl_session_describe", 0, &st)
	s, err := instance().SessionOf(uint64(session))
	if err != nil {
		return failed(err)
	}
	*n = C.int32_t(s.Describe(outs != 0, view[sessionValue](unsafe.Pointer(values), limit)))
	return 0
}

//export tlgo_session_prepare
func tlgo_session_prepare(session C.uint64_t, in *C.tl_session_value, nIn C.int32_t, out *C.tl_session_value,
	limit C.int32_t, n *C.int32_t) (st C.int32_t) {
	defer guard("tl_session_prepare", 0, &st)
	s, err := instance().SessionOf(uint64(session))
	if err != nil {
		return failed(err)
	}
	k, err := s.Prepare(view[sessionValue](unsafe.Pointer(in), nIn), view[sessionValue](unsafe.Pointer(out), limit))
	*n = C.int32_t(k)
	return failed(err)
}

//export tlgo_session_run
func tlgo_session_run(session C.uint64_t, in *C.tl_session_value, nIn C.int32_t, out *C.tl_session_value,
	limit C.int32_t, n *C.int32_t) (st C.int32_t) {
	defer guard("tl_session_run", 0, &st)
	s, err := instance().SessionOf(uint64(session))
	if err != nil {
		return failed(err)
	}
	x, _ := sessionOutputs.LoadOrStore(uint64(session), &outputs{})
	o := x.(*outputs)
	o.mu.Lock()
	defer o.mu.Unlock()
	values := view[sessionValue](unsafe.Pointer(out), limit)
	for k := range values {
		values[k].Data = nil
	}
	k, err := s.Run(view[sessionValue](unsafe.Pointer(in), nIn), values, o.memory)
	*n = C.int32_t(k)
	return failed(err)
}

//export tlgo_session_run_into
func tlgo_session_run_into(session C.uint64_t, in *C.tl_session_value, nIn C.int32_t, out *C.tl_session_value,
	nOut C.int32_t) (st C.int32_t) {
	defer guard("tl_session_run_into", 0, &st)
	s, err := instance().SessionOf(uint64(session))
	if err != nil {
		return failed(err)
	}
	_, err = s.Run(view[sessionValue](unsafe.Pointer(in), nIn), view[sessionValue](unsafe.Pointer(out), nOut), nil)
	return failed(err)
}

//export tlgo_session_begin
func tlgo_session_begin(session C.uint64_t, in *C.tl_session_value, nIn C.int32_t, out *C.tl_session_value,
	nOut, prepare C.int32_t, slice C.int64_t, run *C.uint64_t) (st C.int32_t) {
	defer guard("tl_session_begin", 0, &st)
	id, pending, err := instance().BeginSession(uint64(session), view[sessionValue](unsafe.Pointer(in), nIn),
		view[sessionValue](unsafe.Pointer(out), nOut), prepare != 0, time.Duration(slice))
	*run = C.uint64_t(id)
	return sliced(pending, err)
}

//export tlgo_session_wait
func tlgo_session_wait(run C.uint64_t, stop C.int32_t, slice C.int64_t) (st C.int32_t) {
	defer guard("tl_session_wait", 0, &st)
	return sliced(instance().WaitSession(uint64(run), stop != 0, time.Duration(slice)))
}

//export tlgo_session_reset
func tlgo_session_reset(session C.uint64_t) (st C.int32_t) {
	defer guard("tl_session_reset", 0, &st)
	s, err := instance().SessionOf(uint64(session))
	if err == nil {
		err = s.Reset()
	}
	return failed(err)
}

//export tlgo_session_close
func tlgo_session_close(session C.uint64_t) (st C.int32_t) {
	defer guard("tl_session_close", 0, &st)
	err := instance().CloseSession(uint64(session))
	closeOutputs(&sessionOutputs, uint64(session))
	return failed(err)
}

// closeOutputs frees the memory of a session.
func closeOutputs(of *sync.Map, session uint64) {
	if x, ok := of.LoadAndDelete(session); ok {
		o := x.(*outputs)
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, p := range o.data {
			C.tlgo_free_c(p)
		}
		o.data, o.room = nil, nil
	}
}
