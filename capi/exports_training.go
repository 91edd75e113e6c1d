package main

/*
#include "shim.h"
*/
import "C"

import (
	"unsafe"

	"github.com/torchlette/torchlette/engine"
	"github.com/torchlette/torchlette/ir"
)

//export tlgo_training_open
func tlgo_training_open(path, device *C.char, training *C.uint64_t) (st C.int32_t) {
	defer guard("tl_training_open", 0, &st)
	dev, err := deviceOrCPU(device)
	if err != nil {
		return failed(err)
	}
	id, err := instance().OpenTraining(C.GoString(path), dev)
	*training = C.uint64_t(id)
	return failed(err)
}

// trains calls use with the training session of a number.
func trains(id C.uint64_t, use func(s *engine.TrainingSession) *ir.Error) C.int32_t {
	s, err := instance().TrainingOf(uint64(id))
	if err != nil {
		return failed(err)
	}
	return failed(use(s))
}

//export tlgo_training_describe
func tlgo_training_describe(training C.uint64_t, state C.int32_t, values *C.tl_session_value, limit C.int32_t,
	n *C.int32_t) (st C.int32_t) {
	defer guard("tl_training_describe", 0, &st)
	return trains(training, func(s *engine.TrainingSession) *ir.Error {
		*n = C.int32_t(s.Describe(state != 0, view[sessionValue](unsafe.Pointer(values), limit)))
		return nil
	})
}

//export tlgo_training_step
func tlgo_training_step(training C.uint64_t, in *C.tl_session_value, nIn, evaluate C.int32_t, loss *C.double) (
	st C.int32_t) {
	defer guard("tl_training_step", 0, &st)
	return trains(training, func(s *engine.TrainingSession) *ir.Error {
		x, err := s.Step(view[sessionValue](unsafe.Pointer(in), nIn), evaluate != 0)
		*loss = C.double(x)
		return err
	})
}

//export tlgo_training_read
func tlgo_training_read(training C.uint64_t, name *C.char, value *C.tl_session_value) (st C.int32_t) {
	defer guard("tl_training_read", 0, &st)
	return trains(training, func(s *engine.TrainingSession) *ir.Error {
		v := &view[sessionValue](unsafe.Pointer(value), C.int32_t(1))[0]
		b, err := s.Read(C.GoString(name), v)
		if err == nil {
			v.Data = lastRead(uint64(training), b)
		}
		return err
	})
}

// lastRead copies what a training session read last to memory in C.
func lastRead(training uint64, b []byte) unsafe.Pointer {
	x, _ := trainingReads.LoadOrStore(training, &outputs{})
	o := x.(*outputs)
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.memory(0, int64(len(b)))
	if p != nil {
		copy(unsafe.Slice((*byte)(p), len(b)), b)
	}
	return p
}

//export tlgo_training_write
func tlgo_training_write(training C.uint64_t, value *C.tl_session_value) (st C.int32_t) {
	defer guard("tl_training_write", 0, &st)
	return trains(training, func(s *engine.TrainingSession) *ir.Error {
		return s.Write(&view[sessionValue](unsafe.Pointer(value), C.int32_t(1))[0])
	})
}

//export tlgo_training_save
func tlgo_training_save(training C.uint64_t, path *C.char) (st C.int32_t) {
	defer guard("tl_training_save", 0, &st)
	return trains(training, func(s *engine.TrainingSession) *ir.Error { return s.Save(C.GoString(path)) })
}

//export tlgo_training_close
func tlgo_training_close(training C.uint64_t) (st C.int32_t) {
	defer guard("tl_training_close", 0, &st)
	err := instance().CloseTraining(uint64(training))
	closeOutputs(&trainingReads, uint64(training))
	return failed(err)
}
