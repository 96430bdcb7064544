//go:build cgo && linux

package main

/*
#include "door.h"
#include "goccl_primitive.h"
*/
import "C"

import (
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
)

//export gocclgo_executor_create
func gocclgo_executor_create(boot C.goccl_bootstrap, dev C.goccl_device, opTimeout C.int64_t,
	out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewExecutor(core.Handle(boot), core.Handle(dev), nanoseconds(opTimeout)))
}

//export gocclgo_executor_load
func gocclgo_executor_load(h C.goccl_object, plan unsafe.Pointer, n, reserve C.uint64_t,
	out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.LoadPlan(object(h), append([]byte(nil), bytesOf(plan, n)...), uint64(reserve), false))
}

//export gocclgo_executor_load_trusted
func gocclgo_executor_load_trusted(h C.goccl_object, plan unsafe.Pointer, n, reserve C.uint64_t,
	out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.LoadPlan(object(h), append([]byte(nil), bytesOf(plan, n)...), uint64(reserve), true))
}

//export gocclgo_executor_launch
func gocclgo_executor_launch(h C.goccl_object, send, recv C.uintptr_t, message C.uint64_t, stream C.uintptr_t, t,
	op C.uint32_t, scalar C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.ExecutePlan(object(h), uintptr(send), uintptr(recv), uint64(message), 0, uintptr(stream), uint32(t),
		uint32(op), uint64(scalar)))
}

//export gocclgo_executor_launch_counted
func gocclgo_executor_launch_counted(h C.goccl_object, send, recv C.uintptr_t, message C.uint64_t, counts,
	stream C.uintptr_t, t, op C.uint32_t, scalar C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.ExecutePlan(object(h), uintptr(send), uintptr(recv), uint64(message), uintptr(counts),
		uintptr(stream), uint32(t), uint32(op), uint64(scalar)))
}

//export gocclgo_executor_hook
func gocclgo_executor_hook(h C.goccl_object, hook C.uint32_t, out *C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	at, err := core.Hook(object(h), uint32(hook))
	if out != nil {
		*out = C.uint64_t(at)
	}
	return result(err)
}

//export gocclgo_executor_raise_hook
func gocclgo_executor_raise_hook(h C.goccl_object, hook C.uint32_t, n C.uint64_t,
	stream C.uintptr_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.RaiseHook(object(h), uint32(hook), uint64(n), uintptr(stream)))
}

//export gocclgo_executor_await_hook
func gocclgo_executor_await_hook(h C.goccl_object, hook C.uint32_t, n C.uint64_t,
	stream C.uintptr_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.AwaitHook(object(h), uint32(hook), uint64(n), uintptr(stream)))
}

//export gocclgo_executor_register
func gocclgo_executor_register(h C.goccl_object, buffer C.uintptr_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.RegisterForPlans(object(h), uintptr(buffer)))
}

//export gocclgo_executor_error
func gocclgo_executor_error(h C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return result(core.ExecutorError(object(h)))
}

//export gocclgo_executor_abort
func gocclgo_executor_abort(h C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return result(core.AbortExecutor(object(h)))
}
