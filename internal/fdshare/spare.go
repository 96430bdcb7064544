package fdshare

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/openfiles"
)

// spare is a reserved descriptor. At the limit of open files the server closes it for a moment, to accept a client and
// report the error. Without it the client would wait in the socket's backlog and get no error.
type spare struct {
	fd       int // -1: none could be opened
	shortage openfiles.Shortage
}

// placeholder opens a descriptor that needs no file system.
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

// turnAway records the result of accepting a client. If accepting has failed for long because of the limit, it reports
// the error to one client.
func (s *spare) turnAway(l *net.UnixListener, cause error) {
	if !s.shortage.Lasts(cause) || s.fd < 0 {
		return
	}
	_ = unix.Close(s.fd)
	_ = l.SetDeadline(time.Now().Add(time.Millisecond)) // another goroutine may have taken the freed descriptor
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
