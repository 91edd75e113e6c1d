package main

/*
#include "shim.h"
*/
import "C"

import (
	"unsafe"

	"github.com/torchlette/torchlette/engine"
)

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
func tlgo_backward(roots, grads *C.uint64_t, n C.int32_t, inputs *C.uint64_t, nInputs C.int32_t, flags C.uint32_t,
	session *C.uint64_t) (st C.int32_t) {
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
	return failed(instance().BackwardResults(uint64(session), view[result](unsafe.Pointer(outs), n),
		view[bool](unsafe.Pointer(has), n)))
}

//export tlgo_hook
func tlgo_hook(h C.uint64_t, kind C.int32_t, hook *C.uint64_t) (st C.int32_t) {
	defer guard("register_hook", 0, &st)
	if h == 0 {
		instance().RemoveHook(uint64(*hook))
		return 0
	}
	id, err := instance().AddHook(uint64(h), engine.HookKind(kind))
	*hook = C.uint64_t(id)
	return failed(err)
}

//export tlgo_owns_hook
func tlgo_owns_hook(h, hook C.uint64_t, owns *C.int32_t) (st C.int32_t) {
	defer guard("register_hook", 0, &st)
	*owns = 0
	if instance().OwnsHook(uint64(h), uint64(hook)) {
		*owns = 1
	}
	return 0
}

//export tlgo_dead_hooks
func tlgo_dead_hooks(hooks *C.uint64_t, limit C.int32_t, n *C.int32_t) (st C.int32_t) {
	defer guard("register_hook", 0, &st)
	*n = C.int32_t(instance().DeadHooks(view[uint64](unsafe.Pointer(hooks), limit)))
	return 0
}

//export tlgo_function
func tlgo_function(h C.uint64_t, leaf C.int32_t, f *C.tl_function_info) (st C.int32_t) {
	defer guard("grad_fn", 0, &st)
	g, err := instance().GradFunction(uint64(h), leaf != 0)
	*(*function)(unsafe.Pointer(f)) = g
	return failed(err)
}

//export tlgo_function_next
func tlgo_function_next(id C.uint64_t, next *C.tl_function_info, limit C.int32_t, n *C.int32_t) (st C.int32_t) {
	defer guard("next_functions", 0, &st)
	k, err := instance().NextFunctions(uint64(id), view[function](unsafe.Pointer(next), limit))
	*n = C.int32_t(k)
	return failed(err)
}

//export tlgo_function_release
func tlgo_function_release(id C.uint64_t) (st C.int32_t) {
	defer guard("grad_fn", 0, &st)
	instance().ReleaseFunction(uint64(id))
	return 0
}

//export tlgo_function_scope
func tlgo_function_scope(name *C.char) (st C.int32_t) {
	defer guard("Function.apply", 0, &st)
	if name != nil {
		instance().BeginFunction(C.GoString(name))
	} else {
		instance().EndFunction()
	}
	return 0
}

//export tlgo_next_pack_hook
func tlgo_next_pack_hook(handles *C.uint64_t, n C.int32_t, out *C.tl_out, operand *C.int32_t,
	hook *C.uint64_t) (st C.int32_t) {
	defer guard("saved_tensors_hooks", 0, &st)
	if n < 0 {
		instance().SkipPackHooks()
		return 0
	}
	id, k, err := instance().NextPackHook(view[uint64](unsafe.Pointer(handles), n), (*result)(unsafe.Pointer(out)))
	*hook, *operand = C.uint64_t(id), C.int32_t(k)
	return failed(err)
}

//export tlgo_saved
func tlgo_saved(id C.uint64_t, i, action C.int32_t, info *C.tl_saved_info, out *C.tl_out) (st C.int32_t) {
	defer guard("grad_fn", 0, &st)
	return failed(instance().Saved(uint64(id), int(i), int32(action), (*savedInfo)(unsafe.Pointer(info)),
		(*result)(unsafe.Pointer(out))))
}

//export tlgo_attach_history
func tlgo_attach_history(h, id C.uint64_t, i C.int32_t, out *C.tl_out) (st C.int32_t) {
	defer guard("grad_fn", 0, &st)
	return failed(instance().AttachHistory(uint64(h), uint64(id), int(i), (*result)(unsafe.Pointer(out))))
}

//export tlgo_leads_outside
func tlgo_leads_outside(hs *C.uint64_t, n C.int32_t, outside *C.uint8_t) (st C.int32_t) {
	defer guard("grad_fn", 0, &st)
	return failed(instance().LeadsOutside(view[uint64](unsafe.Pointer(hs), n), view[bool](unsafe.Pointer(outside), n)))
}

//export tlgo_close_leaves
func tlgo_close_leaves(hs *C.uint64_t, n C.int32_t) (st C.int32_t) {
	defer guard("grad_fn", 0, &st)
	return failed(instance().CloseLeaves(view[uint64](unsafe.Pointer(hs), n)))
}

//export tlgo_fence
func tlgo_fence(kind C.int32_t, writable *C.uint64_t, n C.int32_t, recomputing *C.int32_t) (st C.int32_t) {
	defer guard("fence", 0, &st)
	*recomputing = 0
	was, err := instance().Fence(engine.FenceKind(kind), view[uint64](unsafe.Pointer(writable), n))
	if was {
		*recomputing = 1
	}
	return failed(err)
}
