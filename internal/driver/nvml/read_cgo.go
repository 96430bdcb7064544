//go:build cgo && linux

package nvml

//cu:nocgo fmt.Errorf("%w: this program was built without cgo (CGO_ENABLED=0) or not for Linux", ErrUnavailable)

/*
#cgo CFLAGS: -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "nvml.h"
*/
import "C"

import (
	"cmp"
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/internal/setting"
)

// Read asks NVML about all GPUs. The error wraps ErrUnavailable when there is no library or no driver behind it.
func Read() (*Info, error) {
	cpath := C.CString(cmp.Or(setting.Lenient().NVMLLib, "libnvidia-ml.so.1"))
	defer C.free(unsafe.Pointer(cpath))
	text := (*C.char)(C.calloc(1, 512))
	defer C.free(unsafe.Pointer(text))
	raw := (*C.goccl_nvml_info)(C.calloc(1, C.sizeof_goccl_nvml_info))
	defer C.free(unsafe.Pointer(raw))
	if r := C.goccl_nvml_read(cpath, raw, text, 512); r != 0 {
		return nil, fmt.Errorf("%w: %s (%d)", ErrUnavailable, C.GoString(text), r)
	}
	n := int(raw.count)
	info := &Info{Driver: C.GoString(&raw.driver[0]), CUDA: int(raw.cuda)}
	for i := range n {
		g := &raw.gpu[i]
		gpu := GPU{Name: C.GoString(&g.name[0]), UUID: C.GoString(&g.uuid[0]), BusID: BusID(C.GoString(&g.bus[0])),
			Memory: int64(g.memory),
			Major:  int(g.major), Minor: int(g.minor), MIG: g.mig != 0}
		for l := range g.link {
			if g.link[l] != C.GOCCL_LINK_NONE {
				gpu.Links = append(gpu.Links, Link{Kind: LinkKind(g.link[l]), Remote: BusID(C.GoString(&g.remote[l][0]))})
			}
		}
		info.GPUs = append(info.GPUs, gpu)
		p2p, known, level := make([]bool, n), make([]bool, n), make([]Level, n)
		for j := range n {
			p2p[j], known[j], level[j] = raw.p2p[i][j] == 0, raw.p2p[i][j] >= 0, Level(raw.ancestor[i][j])
		}
		info.P2P, info.Known, info.Ancestor = append(info.P2P, p2p), append(info.Known, known), append(info.Ancestor, level)
	}
	return info, nil
}
