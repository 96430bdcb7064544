package futex

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/fault"
)

// Operations of futex(2). FUTEX_PRIVATE_FLAG is omitted on purpose: the word is shared between processes.
const (
	opWait = 0
	opWake = 1
)

// All, as n of Wake, wakes every sleeper.
const All = math.MaxInt32

// Wait sleeps while *addr == val, until a Wake on the same word or until timeout has passed (fault.ErrTimeout). With a
// timeout <= 0 there is none. It returns nil when woken, when *addr differed already, and on a signal: in every case
// the caller must check its own condition again.
func Wait(addr *atomic.Uint32, val uint32, timeout time.Duration) error {
	var ts *unix.Timespec
	if timeout > 0 {
		t := unix.NsecToTimespec(int64(timeout))
		ts = &t
	}
	_, _, e := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), opWait, uintptr(val),
		uintptr(unsafe.Pointer(ts)), 0, 0)
	switch e {
	case 0, unix.EAGAIN, unix.EINTR:
		return nil
	case unix.ETIMEDOUT:
		return fault.ErrTimeout
	}
	return fmt.Errorf("futex: wait at %p: %w", addr, e)
}

// Wake wakes up to n sleepers and returns how many it woke. It never blocks, so it bypasses the Go scheduler.
func Wake(addr *atomic.Uint32, n int) (int, error) {
	r, _, e := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(addr)), opWake, uintptr(n), 0, 0, 0)
	if e != 0 {
		return 0, fmt.Errorf("futex: wake at %p: %w", addr, e)
	}
	return int(r), nil
}
