//go:build cgo && linux

package driver

//cu:nocgo fmt.Errorf("%w: this program was built without cgo (CGO_ENABLED=0) or not for Linux; build it with "+
//cu:nocgo 	"CGO_ENABLED=1 and a C compiler to use GPUs", ErrNoDriver)

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl
#cgo noescape goccl_driver_call
#cgo nocallback goccl_driver_call
#cgo noescape goccl_driver_launch
#cgo nocallback goccl_driver_launch
#include <stdlib.h>
#include "api.h"
#include "order.h"
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/internal/setting"
)

var _ = [1]struct{}{}[unsafe.Sizeof(Order{})-C.sizeof_struct_order]

// defaultLibrary is the driver's soname.
const defaultLibrary = "libcuda.so.1"

func open() error {
	cpath := C.CString(cmp.Or(setting.Lenient().CUDALib, defaultLibrary))
	defer C.free(unsafe.Pointer(cpath))
	text := (*C.char)(C.calloc(1, 512))
	defer C.free(unsafe.Pointer(text))
	if C.goccl_driver_load(cpath, text, 512) != 0 {
		return fmt.Errorf("%w: %s", ErrNoDriver, C.GoString(text))
	}
	return nil
}

// call performs one operation with ctx current. p and q may point to Go memory without pointers; call keeps no
// reference.
func call(o op, ctx Context, a *args, p, q *byte) error {
	return failure(C.goccl_driver_call(C.uint32_t(o), C.uint64_t(ctx), (*C.uint64_t)(unsafe.Pointer(a)), (*C.uint8_t)(p),
		(*C.uint8_t)(q)))
}

// LaunchInOrder is Enter, Launch and Leave in one call. params begins with the kernel's ticket, 8 bytes which this call
// sets: o.Word, or 0 if there is no word or s is being captured. If the ticket is not 0, each block adds 1 to *ticket
// as its last action.
func (c Context) LaunchInOrder(f Function, cfg *LaunchConfig, s Stream, params []byte, o *Order) error {
	a := cfg.pack(f, s, params)
	return failure(C.goccl_driver_launch(C.uint64_t(c), (*C.uint64_t)(&a[0]), (*C.uint8_t)(first(params)),
		(*C.uint8_t)(o.bytes())))
}

// failure is the error of a call's result.
func failure(r C.uint64_t) error {
	if r == 0 {
		return nil
	}
	if Code(uint32(r)) == NotReady { // the result of every unfinished poll: avoid the allocation
		return errNotReady
	}
	return newError(uint64(r))
}

// newError is separate from failure so that the success path stays small.
//
//go:noinline
func newError(r uint64) error {
	e := &Error{Call: C.GoString(C.goccl_driver_api(C.uint32_t(r >> 32))), Code: Code(uint32(r)), Name: "CUDA_ERROR"}
	var name, text *C.char
	C.goccl_driver_error(C.int(e.Code), &name, &text)
	if name != nil {
		e.Name = C.GoString(name)
	}
	if text != nil {
		e.Text = C.GoString(text)
	}
	return e
}

// ContextFunctions returns the addresses of cuCtxGetCurrent and cuCtxSetCurrent, for C code of another package that
// must switch contexts.
func ContextFunctions() (get, set uintptr, err error) {
	if err := Load(); err != nil {
		return 0, 0, err
	}
	var g, s C.uint64_t
	C.goccl_driver_context(&g, &s)
	if g == 0 || s == 0 {
		return 0, 0, errors.New("driver: no context functions")
	}
	return uintptr(g), uintptr(s), nil
}

// currentContext and setCurrentContext access the calling thread's context; the goroutine must be locked to the thread.
// Tests use them to act as a foreign thread.
func currentContext() Context       { return Context(C.goccl_driver_current()) }
func setCurrentContext(ctx Context) { C.goccl_driver_set_current(C.uint64_t(ctx)) }
