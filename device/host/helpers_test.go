package host_test

import (
	"context"
	"time"
	"unsafe"
)

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

// deadlineContext ends on its own; processes that end do not cancel it.
func deadlineContext() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	_ = cancel
	return ctx
}
