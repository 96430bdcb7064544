//go:build cgo && linux

package main

// #include "door.h"
import "C"

import (
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
)

// loadEnvironment makes the process's environment at the time of loading Go's.
func loadEnvironment() {
	first := C.goccl_door_environ()
	if first == nil {
		return // there was no memory for it: what the process was started with stays
	}
	defer C.goccl_door_environ_free()
	var all []string
	for p := first; *p != nil; p = (**C.char)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))) {
		all = append(all, C.GoString(*p))
	}
	core.LoadEnvironment(all)
}
