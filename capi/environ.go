//go:build cgo && linux

package main

// #include "door.h"
import "C"

import (
	"unsafe"

	"github.com/goccl/goccl/internal/setting"
)

// loadEnvironment sets Go's environment to the process's environment at the time of loading.
func loadEnvironment() {
	first := C.goccl_door_environ()
	if first == nil {
		return // out of memory: Go keeps the environment with which the process was started
	}
	defer C.goccl_door_environ_free()
	var all []string
	for p := first; *p != nil; p = (**C.char)(unsafe.Add(unsafe.Pointer(p), unsafe.Sizeof(*p))) {
		all = append(all, C.GoString(*p))
	}
	setting.Load(all)
}
