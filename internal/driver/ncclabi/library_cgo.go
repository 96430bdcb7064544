//go:build cgo && linux

package ncclabi

//cu:nocgo fmt.Errorf("%w: this program was built without cgo (CGO_ENABLED=0) or not for Linux", ErrUnavailable)

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl
#cgo noescape goccl_nccl_call
#cgo nocallback goccl_nccl_call
#include <stdlib.h>
#include "abi.h"
*/
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/internal/driver"
)

// table is the library's functions, in C memory, for the rest of the process.
type table = *C.goccl_nccl

func open(path string) (table, error) {
	// Without a driver the library can still be opened and asked for its version.
	get, set, err := driver.ContextFunctions()
	if err != nil {
		get, set = 0, 0
	}
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	text := (*C.char)(C.calloc(1, 512))
	defer C.free(unsafe.Pointer(text))
	t := C.goccl_nccl_open(cpath, C.uint64_t(get), C.uint64_t(set), text, 512)
	if t == nil {
		return nil, fmt.Errorf("%w: %s", ErrUnavailable, C.GoString(text))
	}
	return t, nil
}

func (l *Library) call(f Function, ctx uintptr, a *args, p *byte) Result {
	return Result(C.goccl_nccl_call(l.table, C.uint32_t(f), C.uint64_t(ctx), (*C.uint64_t)(unsafe.Pointer(a)),
		unsafe.Pointer(p)))
}

// Has reports whether the library has a function.
func (l *Library) Has(f Function) bool { return C.goccl_nccl_has(l.table, C.uint32_t(f)) != 0 }

func (l *Library) texts(r Result, comm uintptr) (text, last string) {
	if s := C.goccl_nccl_error(l.table, C.int(r)); s != nil {
		text = C.GoString(s)
	}
	if s := C.goccl_nccl_last(l.table, C.uint64_t(comm)); s != nil {
		last = C.GoString(s)
	}
	return text, last
}
