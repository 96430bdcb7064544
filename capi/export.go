//go:build cgo && linux

package main

/*
#cgo CFLAGS: -O2 -Wall -Wextra -Wno-unused-parameter
#cgo LDFLAGS: -lpthread
#cgo noescape goccl_door_fail
#cgo nocallback goccl_door_fail
#include <stdlib.h>
#include "door.h"
*/
import "C"

import (
	"time"
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/internal/sockets"
)

func init() {
	loadEnvironment()
	core.Prepare()
	if t := sockets.ChildTable(); len(t) > 0 {
		C.goccl_door_children((*C.uint64_t)(unsafe.SliceData(t)), C.size_t(len(t)))
	}
}

// result turns an error into a code and stores its text as the calling thread's last error.
func result(err error) C.goccl_result {
	if err == nil {
		return C.GOCCL_SUCCESS
	}
	return report(err)
}

//go:noinline
func report(err error) C.goccl_result {
	text := err.Error()
	C.goccl_door_fail((*C.char)(unsafe.Pointer(unsafe.StringData(text))), C.size_t(len(text)))
	return C.goccl_result(core.ResultOf(err))
}

// catch turns a panic of an export into a result.
func catch(r *C.goccl_result) {
	if v := recover(); v != nil {
		*r = report(core.Recovered(v))
	}
}

// store writes a result to the address that C passed, unless it is NULL.
func store[T any](to *T, v T, err error) C.goccl_result {
	if err == nil {
		*to = v
	}
	return result(err)
}

// give stores the handle of a new object at the address that C passed. The result of a function of core follows.
func give[T ~uint64](to *T) func(core.Handle, error) C.goccl_result {
	return func(h core.Handle, err error) C.goccl_result { return store(to, T(h), err) }
}

// giveBytes is give for bytes: it copies them to C memory that goccl_release frees.
func giveBytes(to *unsafe.Pointer, n *C.uint64_t) func([]byte, error) C.goccl_result {
	return func(b []byte, err error) C.goccl_result {
		if err == nil {
			*to, *n = C.CBytes(b), C.uint64_t(len(b))
		}
		return result(err)
	}
}

func nanoseconds(ns C.int64_t) time.Duration { return time.Duration(ns) }

// version is in C memory that is never freed.
var version = C.CString(buildinfo.Read().Version)

//export gocclgo_version
func gocclgo_version() *C.char { return version }

//export gocclgo_submit
func gocclgo_submit(reqs *C.goccl_request, n C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Submit(unsafe.Slice((*core.Request)(unsafe.Pointer(reqs)), int(n))))
}

//export gocclgo_estimate
func gocclgo_estimate(reqs *C.goccl_request, n C.uint64_t, out *C.double) (r C.goccl_result) {
	defer catch(&r)
	us, err := core.Estimate(unsafe.Slice((*core.Request)(unsafe.Pointer(reqs)), int(n)))
	return store(out, C.double(us), err)
}

//export gocclgo_check
func gocclgo_check(req *C.goccl_request) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Check((*core.Request)(unsafe.Pointer(req))))
}

// The Go request has the layout of the C request.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(core.Request{})-unsafe.Sizeof(C.goccl_request{})]
	_ = [1]struct{}{}[unsafe.Offsetof(core.Request{}.Stream)-unsafe.Offsetof(C.goccl_request{}.stream)]
	_ = [1]struct{}{}[unsafe.Sizeof(core.CallConfig{})-unsafe.Sizeof(C.goccl_call_config{})]
	_ = [1]struct{}{}[unsafe.Offsetof(core.CallConfig{}.AllCounts)-unsafe.Offsetof(C.goccl_call_config{}.all_counts)]
	_ = [1]struct{}{}[unsafe.Offsetof(core.CallConfig{}.Launched)-unsafe.Offsetof(C.goccl_call_config{}.launched)]
	_ = [1]struct{}{}[unsafe.Offsetof(core.Request{}.RecvDispls)-unsafe.Offsetof(C.goccl_request{}.recv_displs)]
)
