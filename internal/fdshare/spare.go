package fdshare

import (
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// spare is a descriptor that the server gives up for a moment when it has no room to accept a visitor, to tell it so. Without it the visitor would
// wait in the socket's backlog and learn nothing.
type spare struct {
	fd    int       // -1: none could be had
	since time.Time // of the shortage; zero: there is none
}

// shortage is how long the server waits for room before it turns visitors away: others may be about to close files.
const shortage = time.Second

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

// enough notes that there is room again.
func (s *spare) enough() { s.since = time.Time{} }

// turnAway tells one visitor why it cannot be served.
func (s *spare) turnAway(l *net.UnixListener, cause error) {
	switch {
	case s.since.IsZero():
		s.since = time.Now()
		return
	case time.Since(s.since) < shortage || s.fd < 0:
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
