package fdshare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/openfiles"
)

// Fetch returns a new descriptor for the offer of t; the caller closes it. It is close-on-exec. The wait ends with ctx,
// which should have a deadline: a server that was stopped (SIGSTOP) answers only after it continues.
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
			return -1, explain(err)
		}
		return fd, nil
	}
	for {
		fd, err = ask(ctx, t)
		// A server hangs up on a client that has been silent for long, for example because it was stopped. A retry is
		// harmless.
		if !errors.Is(err, errHungUp) {
			return fd, err
		}
		select {
		case <-ctx.Done():
			return -1, fmt.Errorf("%w: %w", ended(ctx), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// ask makes one attempt.
func ask(ctx context.Context, t Ticket) (fd int, err error) {
	c, err := dial(ctx, t.name().address())
	if err != nil {
		return -1, err
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	fd, err = request(c, t)
	if err != nil && ctx.Err() != nil {
		err = ended(ctx)
	}
	return fd, err
}

func ended(ctx context.Context) error {
	return fmt.Errorf("fdshare: fetch: the other process does not answer: is it stopped? %w", ctx.Err())
}

// explain adds this process's limit to an error that it has caused.
func explain(err error) error {
	if openfiles.Exhausted(err) {
		return fmt.Errorf("fdshare: fetch: %w", openfiles.Explain(err))
	}
	return err
}

// errHungUp is the error of a connection that was closed without an answer.
var errHungUp = fmt.Errorf("%w: no answer", ErrGone)

// dial waits while the server's backlog is full, which the kernel reports as EAGAIN.
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
			return nil, fmt.Errorf("fdshare: fetch: %w", openfiles.Explain(err))
		}
		select {
		case <-ctx.Done():
			return nil, ended(ctx)
		case <-time.After(time.Millisecond):
		}
	}
}

// request sends the ticket and receives the answer. It returns one descriptor or closes all that arrive.
func request(c *net.UnixConn, t Ticket) (int, error) {
	// A server without a free descriptor answers before it reads the request, and hangs up.
	if _, err := c.Write(t[:]); err != nil && !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return -1, fmt.Errorf("fdshare: fetch: %w", err)
	}
	// Room for more than one descriptor, so that surplus ones are detected and closed, not silently truncated.
	var answer [3]byte
	control := make([]byte, unix.CmsgSpace(4*4))
	n, cn, flags, _, err := c.ReadMsgUnix(answer[:], control) // ReadMsgUnix sets MSG_CMSG_CLOEXEC
	if err != nil {
		return -1, lost(err)
	}
	fds, err := rights(control[:cn])
	switch {
	case err != nil:
	case flags&unix.MSG_CTRUNC != 0 && len(fds) == 0:
		// The kernel drops descriptors if the receiver is at its limit of open files.
		err = fmt.Errorf("fdshare: fetch: %w", openfiles.Explain(unix.EMFILE))
	case flags&unix.MSG_CTRUNC != 0:
		err = fmt.Errorf("%w: more descriptors than one", ErrProtocol)
	case n == 0 && len(fds) == 0:
		err = errHungUp
	case n == 1 && answer[0] == statusRefused && len(fds) == 0:
		err = ErrRefused
	case n == 2 && answer[0] == statusFailed && len(fds) == 0:
		err = fmt.Errorf("fdshare: fetch: the other process cannot send it: %w", unix.Errno(answer[1]))
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

// lost returns the error of a connection that broke before the answer.
func lost(err error) error {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: %w", errHungUp, err)
	}
	return fmt.Errorf("fdshare: fetch: %w", err)
}

// rights collects every descriptor of the control message, even if a part of it is malformed.
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
