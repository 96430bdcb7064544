package fdshare

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/openfiles"
	"github.com/goccl/goccl/internal/peercred"
	"github.com/goccl/goccl/internal/sockets"
)

const (
	// visitTimeout is the time limit for a client's request. A client that was stopped for longer retries.
	visitTimeout = 5 * time.Second
	// maxClients bounds concurrent connections; more wait in the socket's backlog.
	maxClients = 64
)

// The answer is one status byte. With statusOK comes one descriptor; after statusFailed comes the errno of the server's
// error.
const (
	statusOK      = 1
	statusRefused = 2
	statusFailed  = 3
)

// Server offers this process's descriptors.
type Server struct {
	name socketName
	l    *net.UnixListener
	wg   sync.WaitGroup

	mu     sync.Mutex
	offers map[uint64]*offer
	next   uint64
	closed bool
	visits map[*net.UnixConn]struct{} // open connections; Close closes them, so that it need not wait for their deadlines
}

// offer owns fd. fd is used only under the server's lock, so that revoke cannot close it during use, and its number
// cannot be reused.
type offer struct {
	fd    int
	token [32]byte
}

var shared struct {
	sync.Mutex
	s   *Server
	pid int
}

// Shared returns the process's server, started by the first call. A forked child gets its own.
func Shared() (*Server, error) {
	shared.Lock()
	defer shared.Unlock()
	if shared.s != nil && shared.pid == os.Getpid() {
		return shared.s, nil
	}
	s, err := New()
	if err != nil {
		return nil, err
	}
	shared.s, shared.pid = s, os.Getpid()
	return s, nil
}

// New starts a separate server, for callers that must be able to close it.
func New() (*Server, error) {
	s := &Server{offers: map[uint64]*offer{}, visits: map[*net.UnixConn]struct{}{}}
	_, _ = rand.Read(s.name[:]) // never fails
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.name.address(), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("fdshare: start the server: %w", openfiles.Explain(err))
	}
	sockets.CloseInChild(l)
	s.l = l
	servers.Store(s.name, s)
	room := &spare{fd: placeholder()}
	s.wg.Go(func() { s.serve(room) })
	return s, nil
}

// servers holds the servers of this process, so that a fetch from the same process needs no socket.
var servers sync.Map // socketName → *Server

// Close revokes all offers and ends the server.
func (s *Server) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	for n, o := range s.offers {
		_ = unix.Close(o.fd)
		delete(s.offers, n)
	}
	for c := range s.visits {
		_ = c.Close()
	}
	s.mu.Unlock()
	servers.Delete(s.name)
	err := s.l.Close()
	s.wg.Wait()
	return err
}

// Offer makes fd available to holders of the ticket until revoke, which may be called repeatedly. It duplicates fd.
func (s *Server) Offer(fd int) (t Ticket, revoke func(), err error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return t, nil, fmt.Errorf("fdshare: offer descriptor %d: %w", fd, openfiles.Explain(err))
	}
	o := &offer{fd: dup}
	_, _ = rand.Read(o.token[:]) // never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = unix.Close(dup)
		return t, nil, ErrClosed
	}
	s.next++
	n := s.next
	s.offers[n] = o
	return newTicket(n, s.name, o.token), func() { s.revoke(n) }, nil
}

func (s *Server) revoke(n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.offers[n]; o != nil {
		_ = unix.Close(o.fd)
		delete(s.offers, n)
	}
}

// use calls f with the offered descriptor if the ticket is valid. f must not block.
func (s *Server) use(t Ticket, f func(fd int) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.offers[t.number()]
	var token [32]byte
	if o != nil {
		token = o.token
	}
	if equal := subtle.ConstantTimeCompare(token[:], t.token()) == 1; o == nil || !equal || s.name != t.name() {
		return ErrRefused
	}
	return f(o.fd)
}

func (s *Server) serve(room *spare) {
	places := make(chan struct{}, maxClients)
	defer room.close()
	for {
		c, err := s.l.AcceptUnix()
		room.turnAway(s.l, err)
		if err != nil {
			s.mu.Lock()
			closed := s.closed
			s.mu.Unlock()
			if closed || errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(5 * time.Millisecond)
			continue
		}
		sockets.CloseInChild(c)
		if checkUser(c) != nil {
			_ = c.Close()
			continue
		}
		places <- struct{}{}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			_ = c.Close()
			return
		}
		s.visits[c] = struct{}{}
		s.mu.Unlock()
		s.wg.Go(func() {
			s.visit(c)
			s.mu.Lock()
			delete(s.visits, c)
			s.mu.Unlock()
			_ = c.Close()
			<-places
		})
	}
}

// visit answers one request.
func (s *Server) visit(c *net.UnixConn) {
	_ = c.SetDeadline(time.Now().Add(visitTimeout))
	var t Ticket
	if _, err := io.ReadFull(c, t[:]); err != nil {
		return
	}
	err := t.check()
	if err == nil {
		err = s.use(t, func(fd int) error { return send(c, fd) })
	}
	var number unix.Errno
	switch {
	case err == nil:
	case errors.As(err, &number):
		_, _ = c.Write([]byte{statusFailed, byte(number)})
	default:
		_, _ = c.Write([]byte{statusRefused})
	}
}

// send sends the descriptor itself, not a duplicate, so that a server at its limit of open files can still serve. It
// does not block, because the connection carries no other data.
func send(c *net.UnixConn, fd int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var sendErr error
	err = raw.Control(func(socket uintptr) {
		sendErr = unix.Sendmsg(int(socket), []byte{statusOK}, unix.UnixRights(fd), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	return errors.Join(err, sendErr)
}

// checkUser compares the other side's effective user id with ours.
func checkUser(c *net.UnixConn) error {
	uid, err := peercred.UID(c)
	if err != nil {
		return fmt.Errorf("fdshare: %w", err)
	}
	if uid != os.Geteuid() {
		return fmt.Errorf("%w: user %d, this is user %d", ErrUser, uid, os.Geteuid())
	}
	return nil
}
