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
		all = append(all, Health{Name: C.GoString(&h.name[0]), BusID: BusID(C.GoString(&h.bus[0])),
			Persistence: int(h.persistence), ECC: int(h.ecc), ECCPending: int(h.ecc_pending), MIG: int(h.mig),
			ComputeMode: int(h.compute_mode), Temperature: int(h.temperature), PCIeGen: int(h.pcie_gen),
			PCIeGenMost: int(h.pcie_gen_most), PCIeWidth: int(h.pcie_width), PCIeWidthMost: int(h.pcie_width_most),
			SMClock: int(h.sm_clock), SMClockMost: int(h.sm_clock_most), MemoryClock: int(h.memory_clock),
			MemoryClockMost: int(h.memory_clock_most), RowsPending: int(h.rows_pending), RowsFailed: int(h.rows_failed),
			RowsRemapped: int(h.rows_remapped), PagesPending: int(h.pages_pending), BAR1Total: uint64(h.bar1_total),
			BAR1Free: uint64(h.bar1_free), Memory: uint64(h.memory_total), Throttle: Throttle(h.throttle),
			PCIeReplays: uint64(h.pcie_replays), ECCCorrected: uint64(h.ecc_corrected),
			ECCUncorrected: uint64(h.ecc_uncorrected), LinkReplays: uint64(h.link_replays),
			LinkRecoveries: uint64(h.link_recoveries), LinkCRCFlit: uint64(h.link_crc_flit),
			LinkCRCData: uint64(h.link_crc_data)})
	}
	if r != 0 {
		return all, fmt.Errorf("%w: %s (%d)", ErrUnavailable, C.GoString(text), r)
	}
	return all, nil
}
