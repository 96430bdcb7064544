package fdshare

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/openfiles"
)

// spare is a descriptor that the server gives up for a moment when it has no room to accept a visitor, to tell it so. Without it the visitor would
// wait in the socket's backlog and learn nothing.
type spare struct {
	fd       int // -1: none could be had
	shortage openfiles.Shortage
}

func newSpare() *spare { return &spare{fd: placeholder()} }

// placeholder opens something that needs no file system.
func placeholder() int {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
}

func (s *spare) close() {
	if s.fd >= 0 {
		_ = unix.Close(s.fd)
	}
}

// turnAway notes how accepting a visitor ended. If it has failed for long for want of room, one visitor is told so.
func (s *spare) turnAway(l *net.UnixListener, cause error) {
	if !s.shortage.Lasts(cause) || s.fd < 0 {
		return
	}
	_ = unix.Close(s.fd)
	_ = l.SetDeadline(time.Now().Add(time.Millisecond)) // another goroutine may have taken the place
	if c, err := l.AcceptUnix(); err == nil {
		var number unix.Errno
		if checkUser(c) == nil && errors.As(cause, &number) {
			_, _ = c.Write([]byte{statusFailed, byte(number)})
		}
		_ = c.Close()
	}
	_ = l.SetDeadline(time.Time{})
	s.fd = placeholder()
}
