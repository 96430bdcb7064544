package chaos

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// nap sleeps without the help of Go's runtime, which a forked child does not have.
//
//go:norace
//go:nosplit
func nap(t *unix.Timespec) {
	_, _, _ = syscall.RawSyscall(syscall.SYS_NANOSLEEP, uintptr(unsafe.Pointer(t)), 0, 0)
}
