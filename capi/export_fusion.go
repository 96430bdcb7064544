//go:build cgo && linux

package main

// #include "door.h"
import "C"

import (
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
)

//export gocclgo_fusion_create
func gocclgo_fusion_create(comm C.goccl_comm, config *C.goccl_fusion_config, out *C.goccl_fusion) (r C.goccl_result) {
	defer catch(&r)
	return give(out)(core.CreateFusion(core.Handle(comm), (*core.FusionConfig)(unsafe.Pointer(config))))
}

//export gocclgo_fusion_all_reduce
func gocclgo_fusion_all_reduce(fusion C.goccl_fusion, request *C.goccl_fused_request) (r C.goccl_result) {
	defer catch(&r)
	return result(core.FusedAllReduce(core.Handle(fusion), (*core.FusedRequest)(unsafe.Pointer(request))))
}

//export gocclgo_fusion_tune
func gocclgo_fusion_tune(fusion C.goccl_fusion, tokens, hidden C.uint64_t, typ C.uint32_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.TuneFusion(core.Handle(fusion), uint64(tokens), uint64(hidden), uint32(typ)))
}

//export gocclgo_fusion_destroy
func gocclgo_fusion_destroy(fusion C.goccl_fusion) (r C.goccl_result) {
	defer catch(&r)
	return result(core.DestroyFusion(core.Handle(fusion)))
}

// The Go structs mirror the structs of goccl.h.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(core.FusionConfig{})-C.sizeof_goccl_fusion_config]
	_ = [1]struct{}{}[unsafe.Sizeof(core.FusedRequest{})-C.sizeof_goccl_fused_request]
)
