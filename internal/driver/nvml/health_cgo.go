//go:build cgo && linux

package nvml

/*
#include <stdlib.h>
#include "health.h"
*/
import "C"

import (
	"cmp"
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/internal/setting"
)

var _ = [1]struct{}{}[unsafe.Sizeof(State{})-C.sizeof_struct_goccl_nvml_state]

// ReadHealth asks NVML for the state of all GPUs, in its order. The error wraps ErrUnavailable when there is no library
// or no driver behind it, or when a GPU does not answer; those before it are returned.
func ReadHealth() ([]Health, error) {
	cpath := C.CString(cmp.Or(setting.Lenient().NVMLLib, "libnvidia-ml.so.1"))
	defer C.free(unsafe.Pointer(cpath))
	text := (*C.char)(C.calloc(1, 512))
	defer C.free(unsafe.Pointer(text))
	raw := (*[C.GOCCL_NVML_GPUS]C.goccl_nvml_health)(C.calloc(C.GOCCL_NVML_GPUS, C.sizeof_goccl_nvml_health))
	defer C.free(unsafe.Pointer(raw))
	var n C.int32_t
	r := C.goccl_nvml_read_health(cpath, &raw[0], &n, text, 512)
	all := make([]Health, 0, int(n))
	for i := range int(n) {
		h := &raw[i]
		all = append(all, Health{C.GoString(&h.name[0]), BusID(C.GoString(&h.bus[0])), *(*State)(unsafe.Pointer(&h.state))})
	}
	if r != 0 {
		return all, fmt.Errorf("%w: %s (%d)", ErrUnavailable, C.GoString(text), r)
	}
	return all, nil
}
