//go:build cgo && linux

package main

// #include "door.h"
// static inline void gocclgo_call(void *f, void *arg) { ((void (*)(void *))f)(arg); }
import "C"

import (
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
)

//export gocclgo_notify
func gocclgo_notify(comm C.goccl_comm, stream C.uintptr_t, f, arg unsafe.Pointer) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Notify(core.Handle(comm), uintptr(stream), func() { C.gocclgo_call(f, arg) }))
}
