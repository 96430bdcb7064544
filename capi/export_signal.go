//go:build cgo && linux

package main

// #include "door.h"
import "C"

import (
	"fmt"
	"unsafe"

	"github.com/goccl/goccl/capi/internal/core"
)

func signalTo(peer, context, index C.int32_t) core.SignalWait {
	return core.SignalWait{Count: 1, Peer: int32(peer), Context: int32(context), Index: int32(index)}
}

//export gocclgo_put_signal
func gocclgo_put_signal(window C.goccl_window, offset C.uint64_t, src unsafe.Pointer, size C.uint64_t, peer, context,
	index C.int32_t, stream C.uintptr_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.PutSignal(core.Handle(window), uint64(offset), uintptr(src), uint64(size),
		signalTo(peer, context, index), uintptr(stream)))
}

//export gocclgo_signal
func gocclgo_signal(comm C.goccl_comm, peer, context, index C.int32_t, stream C.uintptr_t) (r C.goccl_result) {
	defer catch(&r)
	return result(core.Signal(core.Handle(comm), signalTo(peer, context, index), uintptr(stream)))
}

//export gocclgo_wait_signal
func gocclgo_wait_signal(comm C.goccl_comm, n C.int32_t, waits *C.goccl_signal_wait, stream C.uintptr_t) (
	r C.goccl_result) {
	defer catch(&r)
	if n < 1 || waits == nil {
		return result(fmt.Errorf("%w: %d signals to wait for", core.ErrInvalidArgument, n))
	}
	return result(core.WaitSignals(core.Handle(comm), unsafe.Slice((*core.SignalWait)(unsafe.Pointer(waits)), int(n)),
		uintptr(stream)))
}
