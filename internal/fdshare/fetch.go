package fdshare

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Fetch gets a new descriptor for what t names; the caller closes it. It is close-on-exec. The wait ends with ctx, or after five seconds.
func Fetch(ctx context.Context, t Ticket) (fd int, err error) {
	if err := t.check(); err != nil {
		return -1, err
	}
	if s, ok := servers.Load(t.name()); ok {
		err := s.(*Server).use(t, func(offered int) (err error) {
			fd, err = unix.FcntlInt(uintptr(offered), unix.F_DUPFD_CLOEXEC, 0)
			return err
		})
		if err != nil {
			return -1, err
		}
		return fd, nil
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c, err := dial(ctx, t.name().address())
	if err != nil {
		return -1, err
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	fd, err = request(c, t)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("fdshare: fetch: %w", ctx.Err())
	}
	return fd, err
}

// dial waits while the server's backlog is full, which the kernel reports with EAGAIN.
func dial(ctx context.Context, address string) (*net.UnixConn, error) {
	for {
		c, err := (&net.Dialer{}).DialContext(ctx, "unix", address)
		switch {
		case err == nil:
			u := c.(*net.UnixConn)
			if err := checkUser(u); err != nil {
				_ = u.Close()
				return nil, err
			}
			return u, nil
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil, fmt.Errorf("%w: %w", ErrGone, err)
		case !errors.Is(err, syscall.EAGAIN):
			return nil, fmt.Errorf("fdshare: fetch: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("fdshare: fetch: the server is busy: %w", ctx.Err())
		case <-time.After(time.Millisecond):
		}
	}
}

// request sends the ticket and receives the answer. Whatever arrives is either the one descriptor returned or closed.
func request(c *net.UnixConn, t Ticket) (int, error) {
	if _, err := c.Write(t[:]); err != nil {
		return -1, fmt.Errorf("fdshare: fetch: %w", err)
	}
	// Room for more than one descriptor, so that an excess is seen and closed rather than silently cut.
	var answer [2]byte
	control := make([]byte, unix.CmsgSpace(4*4))
	n, cn, flags, _, err := c.ReadMsgUnix(answer[:], control) // sets MSG_CMSG_CLOEXEC
	if err != nil {
		return -1, fmt.Errorf("fdshare: fetch: %w", err)
	}
	fds, err := rights(control[:cn])
	switch {
	case err != nil:
	case flags&unix.MSG_CTRUNC != 0:
		err = fmt.Errorf("%w: descriptors were cut off; is this process at its limit of open files?", ErrProtocol)
	case n == 0 && len(fds) == 0:
		err = fmt.Errorf("%w: no answer", ErrGone)
	case n == 1 && answer[0] == statusRefused && len(fds) == 0:
		err = ErrRefused
	case n != 1 || answer[0] != statusOK || len(fds) != 1:
		err = fmt.Errorf("%w: an answer of %d bytes with %d descriptors", ErrProtocol, n, len(fds))
	default:
		return fds[0], nil
	}
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
	return -1, err
}

// rights collects every descriptor of the control message, also when a part of it is malformed.
func rights(control []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("%w: control message: %w", ErrProtocol, err)
	}
	for i := range messages {
		got, e := unix.ParseUnixRights(&messages[i])
		if e != nil {
			err = fmt.Errorf("%w: an unexpected control message", ErrProtocol)
			continue
		}
		fds = append(fds, got...)
	}
	return fds, err
}
