//go:build race

package shm

import (
	"runtime"
	"unsafe"
)

// The race detector follows atomics only in memory that it knows, and meetings are in shared memory; ranks of one process read and write each
// other's buffers on their strength. So it is told of them, at addresses that it knows, one of these for each meeting.
var shadows [256]uint64

func shadow(m *meeting) unsafe.Pointer {
	return unsafe.Pointer(&shadows[uintptr(unsafe.Pointer(m))>>12%uintptr(len(shadows))])
}

func (m *meeting) released() { runtime.RaceReleaseMerge(shadow(m)) }

func (m *meeting) acquired() { runtime.RaceAcquire(shadow(m)) }

// writes tells of a write by assembly, which the detector does not see.
func writes(b []byte) { runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(b)), len(b)) }
