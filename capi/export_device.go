//go:build cgo && linux

package main

// #include "door.h"
import "C"

import (
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
	"github.com/goccl/goccl/device"
)

//export gocclgo_device_open
func gocclgo_device_open(kind, index C.int32_t, out *C.goccl_device) (r C.goccl_result) {
	defer catch(&r)
	var h core.Handle
	var err error
	if kind == 0 {
		h, err = core.NumberedDevice(int(index))
	} else {
		h, err = core.OpenDevice(device.Kind(kind), int(index))
	}
	return store(out, C.goccl_device(h), err)
}

//export gocclgo_device_current
func gocclgo_device_current(hint C.int32_t, out *C.goccl_device) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.CurrentDevice(int(hint)))
}

//export gocclgo_device_count
func gocclgo_device_count(kind C.int32_t, count *C.int32_t) (r C.goccl_result) {
	defer catch(&r)
	n, err := core.DeviceCount(device.Kind(kind))
	return store(count, C.int32_t(n), err)
}

//export gocclgo_device_id
func gocclgo_device_id(h C.goccl_device, kind, index *C.int32_t) (r C.goccl_result) {
	defer catch(&r)
	id, err := core.DeviceID(core.Handle(h))
	if err != nil {
		return result(err)
	}
	*kind, *index = C.int32_t(id.Kind), C.int32_t(id.Index)
	return C.GOCCL_SUCCESS
}

//export gocclgo_device_capability
func gocclgo_device_capability(h C.goccl_device, major, minor, numa *C.int32_t) (r C.goccl_result) {
	defer catch(&r)
	a, b, node, err := core.DeviceCapability(core.Handle(h))
	if err != nil {
		return result(err)
	}
	*major, *minor, *numa = C.int32_t(a), C.int32_t(b), C.int32_t(node)
	return C.GOCCL_SUCCESS
}

//export gocclgo_alloc
func gocclgo_alloc(h C.goccl_device, size C.uint64_t, ptr *unsafe.Pointer) (r C.goccl_result) {
	defer catch(&r)
	p, err := core.Alloc(core.Handle(h), uint64(size))
	return store((*uintptr)(unsafe.Pointer(ptr)), p, err)
}

//export gocclgo_free
func gocclgo_free(p unsafe.Pointer) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Free(uintptr(p)))
}

//export gocclgo_copy_in
func gocclgo_copy_in(h C.goccl_device, dst, src unsafe.Pointer, n C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.CopyIn(core.Handle(h), uintptr(dst), src, uint64(n)))
}

//export gocclgo_copy_out
func gocclgo_copy_out(h C.goccl_device, dst, src unsafe.Pointer, n C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.CopyOut(core.Handle(h), dst, uintptr(src), uint64(n)))
}

//export gocclgo_stream_create
func gocclgo_stream_create(h C.goccl_device, out *C.uintptr_t) (r C.goccl_result) {
	defer catch(&r)
	raw, err := core.NewStream(core.Handle(h))
	return store(out, C.uintptr_t(raw), err)
}

//export gocclgo_stream_synchronize
func gocclgo_stream_synchronize(h C.goccl_device, raw C.uintptr_t, timeout C.int64_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.SynchronizeStream(core.Handle(h), uintptr(raw), nanoseconds(timeout)))
}

//export gocclgo_stream_destroy
func gocclgo_stream_destroy(h C.goccl_device, raw C.uintptr_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.CloseStream(core.Handle(h), uintptr(raw)))
}
