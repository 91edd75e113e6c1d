package main

/*
#include "shim.h"
*/
import "C"

import "unsafe"

//export tlgo_requires_grad
func tlgo_requires_grad(h C.uint64_t, value C.int32_t) (st C.int32_t) {
	defer guard("requires_grad_", 0, &st)
	if value == 2 {
		return failed(instance().RetainGrad(uint64(h)))
	}
	return failed(instance().SetRequiresGrad(uint64(h), value != 0))
}

//export tlgo_grad
func tlgo_grad(h C.uint64_t, out *C.tl_out, has *C.int32_t) (st C.int32_t) {
	defer guard("grad", 0, &st)
	ok, err := instance().Grad(uint64(h), (*result)(unsafe.Pointer(out)))
	*has = 0
	if ok {
		*has = 1
	}
	return failed(err)
}

//export tlgo_set_grad
func tlgo_set_grad(h, grad C.uint64_t) (st C.int32_t) {
	defer guard("grad", 0, &st)
	return failed(instance().SetGrad(uint64(h), uint64(grad)))
}

//export tlgo_set_data
func tlgo_set_data(h, source C.uint64_t) (st C.int32_t) {
	defer guard("data", 0, &st)
	return failed(instance().SetData(uint64(h), uint64(source)))
}

//export tlgo_backward
func tlgo_backward(roots, grads *C.uint64_t, n C.int32_t, inputs *C.uint64_t, nInputs C.int32_t, flags C.uint32_t, session *C.uint64_t) (st C.int32_t) {
	defer guard("backward", 0, &st)
	s, err := instance().Backward(view[uint64](unsafe.Pointer(roots), n), view[uint64](unsafe.Pointer(grads), n),
		view[uint64](unsafe.Pointer(inputs), nInputs), uint32(flags))
	*session = C.uint64_t(s)
	return failed(err)
}

//export tlgo_backward_next
func tlgo_backward_next(session, replacement C.uint64_t, event *C.tl_event) (st C.int32_t) {
	defer guard("backward", 0, &st)
	return failed(instance().BackwardNext(uint64(session), uint64(replacement), (*gradEvent)(unsafe.Pointer(event))))
}

//export tlgo_backward_results
func tlgo_backward_results(session C.uint64_t, outs *C.tl_out, has *C.uint8_t, n C.int32_t) (st C.int32_t) {
	defer guard("grad", 0, &st)
	return failed(instance().BackwardResults(uint64(session), view[result](unsafe.Pointer(outs), n), view[bool](unsafe.Pointer(has), n)))
}

//export tlgo_hook
func tlgo_hook(h C.uint64_t, hook *C.uint64_t) (st C.int32_t) {
	defer guard("register_hook", 0, &st)
	if h == 0 {
		instance().RemoveHook(uint64(*hook))
		return 0
	}
	id, err := instance().AddHook(uint64(h))
	*hook = C.uint64_t(id)
	return failed(err)
}

//export tlgo_dead_hooks
func tlgo_dead_hooks(hooks *C.uint64_t, limit C.int32_t, n *C.int32_t) (st C.int32_t) {
	defer guard("register_hook", 0, &st)
	*n = C.int32_t(instance().DeadHooks(view[uint64](unsafe.Pointer(hooks), limit)))
	return 0
}
