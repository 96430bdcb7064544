package tcp

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/sockets"
)

// conn is what a line needs of its connection beside system calls: a *net.TCPConn, or a *socket.
type conn interface {
	io.Reader
	syscall.Conn
	Close() error
	CloseWrite() error
	SetReadDeadline(t time.Time) error
	RemoteAddr() net.Addr
}

// socket is the connection of a lane 0. Go's runtime watches the connections of package net: a packet that arrives
// wakes the thread that sleeps for all of them, although another thread polls and has taken the packet before that one
// runs. The sender pays for it, on a loopback and in a virtual machine as much as for the packet. So only the Port's
// poller watches a socket, and nothing is woken while someone polls.
//
// Control may be called by several goroutines, and within itself. The last call under way closes the descriptor.
type socket struct {
	poller *poller
	remote net.Addr
	gone   chan struct{} // closed by Close

	fd       int
	users    atomic.Int32 // calls of Control under way, and closing once Close was called
	freed    atomic.Bool  // the descriptor is closed
	once     sync.Once    // of Close
	deadline atomic.Int64 // of Read, in nanoseconds since begun; 0 is none

	// Of the poller: the number under which it is watched, or 0; whether it should say when there is room; that there
	// is.
	id    atomic.Int32
	wants atomic.Bool
	room  chan struct{}
}

const closing = 1 << 30

// begun is when the package was loaded. Times since then are on the monotonic clock.
var begun = time.Now()

// detach takes the connection out of the hands of package net: c is closed, and the socket stays open.
func detach(c *net.TCPConn, p *poller) (*socket, error) {
	s := &socket{poller: p, remote: c.RemoteAddr(), gone: make(chan struct{}), room: make(chan struct{}, 1)}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	ctl := raw.Control(func(fd uintptr) { s.fd, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(ctl, err); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	sockets.CloseInChild(s)
	return s, c.Close()
}

// SyscallConn implements syscall.Conn.
func (s *socket) SyscallConn() (syscall.RawConn, error) { return rawSocket{s}, nil }

// rawSocket is the socket as a syscall.RawConn.
type rawSocket struct{ *socket }

// Read is not there: the poller reads.
func (rawSocket) Read(func(fd uintptr) bool) error { return errors.ErrUnsupported }

// Control calls f with the descriptor, which stays open meanwhile.
func (s *socket) Control(f func(fd uintptr)) error {
	defer s.release()
	if s.users.Add(1) >= closing {
		return net.ErrClosed
	}
	f(uintptr(s.fd))
	return nil
}

// release ends a use. After Close there may be several last ones, as later calls of Control begin and end.
func (s *socket) release() {
	if s.users.Add(-1) == closing && s.freed.CompareAndSwap(false, true) {
		_ = unix.Close(s.fd)
	}
}

// control is Control for a system call.
func (s *socket) control(f func(fd int) error) error {
	var err error
	if ctl := s.Control(func(fd uintptr) { err = f(int(fd)) }); ctl != nil {
		return ctl
	}
	return err
}

// Write calls f, and again whenever there is room, until it returns true.
func (s rawSocket) Write(f func(fd uintptr) bool) error {
	for {
		done := false
		if err := s.Control(func(fd uintptr) { done = f(fd) }); err != nil || done {
			return err
		}
		if err := s.poller.awaitRoom(s.socket); err != nil {
			return err
		}
	}
}

// Read implements conn, for what arrives after the end of a lane. It looks once a millisecond, until the deadline.
func (s *socket) Read(b []byte) (n int, err error) {
	for {
		err := s.control(func(fd int) (err error) {
			n, _, err = unix.Recvfrom(fd, b, unix.MSG_DONTWAIT)
			return err
		})
		switch end := s.deadline.Load(); {
		case err == nil && n == 0 && len(b) > 0:
			return 0, io.EOF
		case err != unix.EAGAIN && err != unix.EINTR:
			return max(n, 0), err
		case end != 0 && int64(time.Since(begun)) > end:
			return 0, os.ErrDeadlineExceeded
		}
		time.Sleep(time.Millisecond)
	}
}

// Close implements conn. The poller forgets the socket.
func (s *socket) Close() error {
	err := net.ErrClosed
	s.once.Do(func() {
		close(s.gone)
		s.users.Add(closing + 1)
		s.release()
		err = nil
	})
	return err
}

// CloseWrite implements conn.
func (s *socket) CloseWrite() error {
	return s.control(func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
}

// SetReadDeadline implements conn.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.deadline.Store(int64(time.Since(begun) + time.Until(t)))
	return nil
}

// RemoteAddr implements conn.
func (s *socket) RemoteAddr() net.Addr { return s.remote }
