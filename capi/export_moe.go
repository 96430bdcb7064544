//go:build cgo && linux

package main

/*
#include "door.h"
#include "goccl_moe.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
)

// The structures of core mirror goccl.h, field by field.
var (
	_ [C.sizeof_goccl_moe_size]struct{}          = [unsafe.Sizeof(core.MoESize{})]struct{}{}
	_ [C.sizeof_goccl_moe_shape]struct{}         = [unsafe.Sizeof(core.MoEShape{})]struct{}{}
	_ [C.sizeof_goccl_moe_offsets]struct{}       = [unsafe.Sizeof(core.MoEOffsets{})]struct{}{}
	_ [C.sizeof_goccl_moe_count_args]struct{}    = [unsafe.Sizeof(core.MoECount{})]struct{}{}
	_ [C.sizeof_goccl_moe_notify_args]struct{}   = [unsafe.Sizeof(core.MoENotify{})]struct{}{}
	_ [C.sizeof_goccl_moe_dispatch_args]struct{} = [unsafe.Sizeof(core.MoEDispatch{})]struct{}{}
	_ [C.sizeof_goccl_moe_combine_args]struct{}  = [unsafe.Sizeof(core.MoECombine{})]struct{}{}
)

// given calls f with what C has passed, unless it is NULL.
func given[T any](p unsafe.Pointer, f func(*T) error) C.goccl_result {
	if p == nil {
		return result(fmt.Errorf("%w: the arguments are NULL", core.ErrInvalidArgument))
	}
	return result(f((*T)(p)))
}

//export gocclgo_moe_bytes
func gocclgo_moe_bytes(ranks C.int32_t, tokens C.uint64_t, shape *C.goccl_moe_shape,
	out *C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	n, err := core.MoEBytes(int32(ranks), uint64(tokens), (*core.MoEShape)(unsafe.Pointer(shape)))
	return store(out, C.uint64_t(n), err)
}

//export gocclgo_moe_create
func gocclgo_moe_create(comm C.goccl_comm, size *C.goccl_moe_size, out *C.goccl_moe) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.NewMoE(core.Handle(comm), (*core.MoESize)(unsafe.Pointer(size))))
}

//export gocclgo_moe_destroy
func gocclgo_moe_destroy(moe C.goccl_moe) (r C.goccl_result) {
	defer catch(&r)
	return result(core.DestroyMoE(core.Handle(moe)))
}

//export gocclgo_moe_layout
func gocclgo_moe_layout(moe C.goccl_moe, shape *C.goccl_moe_shape, out *C.goccl_moe_offsets) (r C.goccl_result) {
	defer catch(&r)
	return given(unsafe.Pointer(shape), func(s *core.MoEShape) error {
		o, err := core.MoELayout(core.Handle(moe), s)
		if err == nil {
			*(*core.MoEOffsets)(unsafe.Pointer(out)) = o
		}
		return err
	})
}

//export gocclgo_moe_count
func gocclgo_moe_count(moe C.goccl_moe, args *C.goccl_moe_count_args) (r C.goccl_result) {
	defer catch(&r)
	return given(unsafe.Pointer(args), func(a *core.MoECount) error { return core.CountMoE(core.Handle(moe), a) })
}

//export gocclgo_moe_notify
func gocclgo_moe_notify(moe C.goccl_moe, args *C.goccl_moe_notify_args) (r C.goccl_result) {
	defer catch(&r)
	return given(unsafe.Pointer(args), func(a *core.MoENotify) error { return core.NotifyMoE(core.Handle(moe), a) })
}

//export gocclgo_moe_dispatch
func gocclgo_moe_dispatch(moe C.goccl_moe, args *C.goccl_moe_dispatch_args) (r C.goccl_result) {
	defer catch(&r)
	return given(unsafe.Pointer(args), func(a *core.MoEDispatch) error { return core.DispatchMoE(core.Handle(moe), a) })
}

//export gocclgo_moe_combine
func gocclgo_moe_combine(moe C.goccl_moe, args *C.goccl_moe_combine_args) (r C.goccl_result) {
	defer catch(&r)
	return given(unsafe.Pointer(args), func(a *core.MoECombine) error { return core.CombineMoE(core.Handle(moe), a) })
}
