package main

/*
#include "shim.h"
*/
import "C"

import "unsafe"

// The structs of the hot path are shared with C by memory layout. Each line indexes an array within its bounds only if
// both layouts agree, so a difference does not compile.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(C.tl_scalar{})-unsafe.Sizeof(scalar{})]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_scalar{}.bits)-unsafe.Offsetof(scalar{}.Bits)]

	_ = [1]struct{}{}[unsafe.Sizeof(C.tl_out{})-unsafe.Sizeof(result{})]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_out{}.dtype)-unsafe.Offsetof(result{}.DType)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_out{}.device)-unsafe.Offsetof(result{}.Device)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_out{}.rank)-unsafe.Offsetof(result{}.Rank)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_out{}.flags)-unsafe.Offsetof(result{}.Flags)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_out{}.numel)-unsafe.Offsetof(result{}.Numel)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_out{}.layout)-unsafe.Offsetof(result{}.Layout)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_out{}.defer_id)-unsafe.Offsetof(result{}.DeferID)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_out{}.shape)-unsafe.Offsetof(result{}.Shape)]

	_ = [1]struct{}{}[unsafe.Sizeof(C.tl_deferred{})-unsafe.Sizeof(queued{})]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_deferred{}.handle)-unsafe.Offsetof(queued{}.Handle)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_deferred{}.in)-unsafe.Offsetof(queued{}.In)]

	_ = [1]struct{}{}[unsafe.Sizeof(C.tl_event{})-unsafe.Sizeof(gradEvent{})]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_event{}.hook)-unsafe.Offsetof(gradEvent{}.Hook)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_event{}.grad)-unsafe.Offsetof(gradEvent{}.Grad)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_event{}.name)-unsafe.Offsetof(gradEvent{}.Name)]

	_ = [1]struct{}{}[unsafe.Sizeof(C.tl_session_value{})-unsafe.Sizeof(sessionValue{})]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_session_value{}.rank)-unsafe.Offsetof(sessionValue{}.Rank)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_session_value{}.shape)-unsafe.Offsetof(sessionValue{}.Shape)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_session_value{}.data)-unsafe.Offsetof(sessionValue{}.Data)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_session_value{}.bytes)-unsafe.Offsetof(sessionValue{}.Bytes)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_session_value{}.name)-unsafe.Offsetof(sessionValue{}.Name)]

	_ = [1]struct{}{}[unsafe.Sizeof(C.tl_function_info{})-unsafe.Sizeof(function{})]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_function_info{}.name)-unsafe.Offsetof(function{}.Name)]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_function_info{}.output)-unsafe.Offsetof(function{}.Output)]

	_ = [1]struct{}{}[unsafe.Sizeof(C.tl_saved_info{})-unsafe.Sizeof(savedInfo{})]
	_ = [1]struct{}{}[unsafe.Offsetof(C.tl_saved_info{}.name)-unsafe.Offsetof(savedInfo{}.Name)]
)
