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
	"github.com/goccl/goccl/device/cuda"
)

// stringsOf reads n C strings.
func stringsOf(p **C.char, n C.int32_t) []string {
	if n <= 0 {
		return nil
	}
	out := make([]string, n)
	for i, s := range unsafe.Slice(p, int(n)) {
		out[i] = C.GoString(s)
	}
	return out
}

//export gocclgo_kernel_compile
func gocclgo_kernel_compile(dev C.goccl_device, major, minor C.int32_t, source *C.char, sourceSize C.uint64_t,
	name *C.char,
	options **C.char, noptions C.int32_t, dirs **C.char, ndirs C.int32_t, image *unsafe.Pointer,
	size *C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return giveBytes(image, size)(core.Compile(core.Handle(dev), int(major), int(minor),
		string(bytesOf(unsafe.Pointer(source), sourceSize)), C.GoString(name),
		stringsOf(options, noptions), stringsOf(dirs, ndirs)))
}

//export gocclgo_module_load
func gocclgo_module_load(dev C.goccl_device, image unsafe.Pointer, size C.uint64_t,
	out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.LoadModule(core.Handle(dev), bytesOf(image, size)))
}

//export gocclgo_module_function
func gocclgo_module_function(h C.goccl_object, name *C.char, out *C.goccl_object) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.ModuleFunction(object(h), C.GoString(name)))
}

//export gocclgo_kernel_launch
func gocclgo_kernel_launch(h C.goccl_object, stream C.uintptr_t, shape *C.uint32_t, shared C.uint32_t,
	params unsafe.Pointer, size C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	s := (*[9]uint32)(unsafe.Pointer(shape))
	cfg := cuda.Config{Grid: [3]uint32(s[0:3]), Block: [3]uint32(s[3:6]), Cluster: [3]uint32(s[6:9]),
		Shared: uint32(shared)}
	return result(core.Launch(object(h), uintptr(stream), cfg, bytesOf(params, size)))
}

//export gocclgo_plan_compile
func gocclgo_plan_compile(document unsafe.Pointer, n C.uint64_t, out *unsafe.Pointer,
	size *C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return giveBytes(out, size)(core.CompileProgram(bytesOf(document, n)))
}

//export gocclgo_plan_build
func gocclgo_plan_build(name *C.char, options unsafe.Pointer, n C.uint64_t, out *unsafe.Pointer,
	size *C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return giveBytes(out, size)(core.BuildProgram(C.GoString(name), bytesOf(options, n)))
}

//export gocclgo_plan_check
func gocclgo_plan_check(plan unsafe.Pointer, n C.uint64_t, out *unsafe.Pointer, size *C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return giveBytes(out, size)(core.CheckPlan(bytesOf(plan, n)))
}

//export gocclgo_plan_describe
func gocclgo_plan_describe(plan unsafe.Pointer, n C.uint64_t, out *unsafe.Pointer,
	size *C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	b, err := core.DescribePlan(bytesOf(plan, n))
	return giveBytes(out, size)(b, err)
}
