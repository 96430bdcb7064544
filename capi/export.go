//go:build cgo && linux

package main

//go:generate go run ../tools/gen

/*
#cgo CFLAGS: -O2 -Wall -Wextra -Wno-unused-parameter
#cgo LDFLAGS: -lpthread
#cgo noescape goccl_door_fail
#cgo nocallback goccl_door_fail
#include <stdlib.h>
#include "door.h"

static inline void gocclgo_call(void *f, void *arg) { ((void (*)(void *))f)(arg); }
*/
import "C"

import (
	"fmt"
	"time"
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
	"github.com/goccl/goccl/internal/buildinfo"
	"github.com/goccl/goccl/internal/setting"
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
	switch v := recover().(type) {
	case nil:
	case argumentError:
		*r = report(v.error)
	default:
		*r = report(core.Recovered(v))
	}
}

// store writes a result to the address that C passed, unless it is NULL.
func store[T any](to *T, v T) {
	if to != nil {
		*to = v
	}
}

// give stores the handle of a new object at the address that C passed. The result of a function of core follows.
func give[T ~uint64](to *T) func(core.Handle, error) C.goccl_result {
	return func(h core.Handle, err error) C.goccl_result {
		if err == nil {
			*to = T(h)
		}
		return result(err)
	}
}

// giveAll is give for an array of handles.
func giveAll(to unsafe.Pointer) func([]core.Handle, error) C.goccl_result {
	return func(all []core.Handle, err error) C.goccl_result {
		if err == nil {
			copy(unsafe.Slice((*core.Handle)(to), len(all)), all)
		}
		return result(err)
	}
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

func truth(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

// argumentError is what slice and value panic with.
type argumentError struct{ error }

// value reads a structure that C passed as the argument of a name.
func value[T any](at unsafe.Pointer, name string) T {
	if at == nil {
		panic(argumentError{fmt.Errorf("%w: %s is NULL: pass a structure", core.ErrInvalidArgument, name)})
	}
	return *(*T)(at)
}

// slice views an array of C. A wrong length ends the export by catch, as an invalid argument.
func slice[T any](p unsafe.Pointer, n int) []T {
	if n == 0 {
		return nil
	}
	if n < 0 || p == nil {
		panic(argumentError{fmt.Errorf("%w: an array of %d elements at %#x", core.ErrInvalidArgument, n, uintptr(p))})
	}
	return unsafe.Slice((*T)(p), n)
}

func stringsOf(p **C.char, n C.int32_t) []string {
	var out []string
	for _, s := range slice[*C.char](unsafe.Pointer(p), int(n)) {
		out = append(out, C.GoString(s))
	}
	return out
}

// configOf reads a configuration; NULL means all defaults.
func configOf(c *C.goccl_comm_config) (core.Config, error) {
	if c == nil {
		return core.Config{}, nil
	}
	if c.size < C.sizeof_goccl_comm_config {
		return core.Config{}, fmt.Errorf("%w: goccl_comm_config.size is %d, not %d: set it to sizeof(goccl_comm_config)",
			core.ErrInvalidArgument, c.size, int(C.sizeof_goccl_comm_config))
	}
	cfg := core.Config{NonBlocking: c.non_blocking != 0, Timeout: time.Duration(c.timeout_ns),
		OpTimeout: time.Duration(c.op_timeout_ns), SeparateGraphs: c.separate_graphs != 0,
		UnorderedCaptures: c.separate_graphs == 2, MinCTAs: int(c.min_ctas), MaxCTAs: int(c.max_ctas),
		CTAPolicy: uint32(c.cta_policy), Exact: uint32(c.exact)}
	if c.cta_policy > C.GOCCL_CTA_POLICY_ZERO {
		return cfg, fmt.Errorf("%w: goccl_comm_config.cta_policy is %d: want 0 to 3", core.ErrInvalidArgument,
			uint32(c.cta_policy))
	}
	if c.separate_graphs > 2 {
		return cfg, fmt.Errorf("%w: goccl_comm_config.separate_graphs is %d: want 0, 1 or 2", core.ErrInvalidArgument,
			uint64(c.separate_graphs))
	}
	if c.name != nil {
		cfg.Name = C.GoString(c.name)
	}
	return cfg, nil
}

// childConfig is nil for the parent's configuration.
func childConfig(config *C.goccl_comm_config) (*core.Config, error) {
	if config == nil {
		return nil, nil
	}
	cfg, err := configOf(config)
	return &cfg, err
}

// version is in C memory that is never freed.
var version = C.CString(buildinfo.Read().Version)

//export gocclgo_version
func gocclgo_version() *C.char { return version }

//export gocclgo_notify
func gocclgo_notify(comm C.goccl_comm, stream C.uintptr_t, f, arg unsafe.Pointer) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Notify(core.Handle(comm), uintptr(stream), func() { C.gocclgo_call(f, arg) }))
}

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
