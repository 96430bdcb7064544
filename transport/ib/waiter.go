package ib

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// waiter sleeps until a descriptor of the library has an input. Go's poller waits, so that no thread does.
type waiter struct{ file *os.File }

// newWaiter duplicates fd, which must not block.
func newWaiter(fd int) (*waiter, error) {
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("dup: %w", err)
	}
	return &waiter{os.NewFile(uintptr(own), "verbs")}, nil
}

// wait calls take until its result is not EAGAIN, and sleeps in between. It fails after interrupt and close.
func (w *waiter) wait(take func() error) error {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var taken error
	err = raw.Read(func(uintptr) bool {
		taken = take()
		return !errors.Is(taken, syscall.EAGAIN)
	})
	return errors.Join(err, taken)
}

// interrupt ends the present wait and later ones.
func (w *waiter) interrupt() { _ = w.file.SetReadDeadline(time.Unix(1, 0)) }

// close ends the waits and gives the descriptor back.
func (w *waiter) close() {
	w.interrupt()
	_ = w.file.Close()
}
