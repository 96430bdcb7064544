//go:build race

package shm

import (
	"runtime"
	"unsafe"
)

// The race detector tracks atomics only in Go memory. Meetings are in shared memory, and ranks of one process access
// each other's buffers under their protection. The engine therefore reports the meetings' atomics at these addresses,
// one per meeting.
var shadows [256]uint64

func shadow(m *meeting) unsafe.Pointer {
	return unsafe.Pointer(&shadows[uintptr(unsafe.Pointer(m))>>12%uintptr(len(shadows))])
}

func (m *meeting) released() { runtime.RaceReleaseMerge(shadow(m)) }

func (m *meeting) acquired() { runtime.RaceAcquire(shadow(m)) }

// writes reports a write by assembly, which the detector does not see.
func writes(b []byte) { runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(b)), len(b)) }
