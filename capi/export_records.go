//go:build cgo && linux

package main

// #include "door.h"
import "C"

import (
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
)

//export gocclgo_records
func gocclgo_records(format *C.char, data *unsafe.Pointer, n *C.uint64_t) (r C.goccl_result) {
	defer catch(&r)
	return giveBytes(data, n)(core.Records(C.GoString(format)))
}
