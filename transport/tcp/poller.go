package tcp

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport/peer"
)

// poller reads lane 0 of every peer of a Port. Sleeping and waking takes longer than a small put, so a goroutine
// that waits for an arrival polls, and after activity a goroutine polls on for some microseconds before it sleeps. One
// epoll instance serves all: the number of peers does not matter. Go's runtime watches only another instance, alarm,
// which contains the first one unless a goroutine polls again and again (leave): meanwhile an arrival wakes no thread.
//
// Locks: mu is held while events are handled, so arrivals of lane 0 come from one goroutine at a time. leaving guards
// the contents of alarm.
type poller struct {
	file    *os.File // the epoll instance
	raw     syscall.RawConn
	alarm   *os.File
	asleep  syscall.RawConn // alarm
	waiters atomic.Int32    // goroutines that poll while they wait
	others  atomic.Int32    // those that poll again and again
	leaving sync.Mutex

	mu      sync.Mutex // guards the fields below
	next    int32
	readers map[int32]*reader
	events  [32]unix.EpollEvent
}

func newPoller() (*poller, error) {
	p := &poller{readers: map[int32]*reader{}}
	var err error
	if p.file, p.raw, err = newEpoll(false); err != nil {
		return nil, err
	}
	if p.alarm, p.asleep, err = newEpoll(true); err != nil {
		return nil, errors.Join(err, p.file.Close())
	}
	if err = p.wakes(unix.EPOLL_CTL_ADD, unix.EPOLLIN); err != nil {
		return nil, errors.Join(err, p.file.Close(), p.alarm.Close())
	}
	return p, nil
}

// newEpoll makes an epoll instance. Go waits for it as for a socket if it is watched.
func newEpoll(watched bool) (*os.File, syscall.RawConn, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, nil, fmt.Errorf("tcp: epoll: %w", err)
	}
	_ = unix.SetNonblock(fd, watched)
	f := os.NewFile(uintptr(fd), "epoll")
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, raw, nil
}

// wakes sets which events wake run.
func (p *poller) wakes(op int, events uint32) error {
	var err error
	ctl := p.asleep.Control(func(alarm uintptr) {
		err = p.control(func(ep int) error {
			return unix.EpollCtl(int(alarm), op, ep, &unix.EpollEvent{Events: events})
		})
	})
	return errors.Join(ctl, err)
}

// leave adds to the number of goroutines that poll again and again. While there are some, run sleeps.
func (p *poller) leave(delta int) {
	p.leaving.Lock()
	defer p.leaving.Unlock()
	switch n := int(p.others.Add(int32(delta))); {
	case n == 0:
		_ = p.wakes(unix.EPOLL_CTL_MOD, unix.EPOLLIN) // also for data that has already arrived
	case n == delta: // the first
		_ = p.wakes(unix.EPOLL_CTL_MOD, 0)
	}
}

// read applies what arrives on the socket of r until it ends.
func (p *poller) read(r *reader) error {
	s := r.line.sock
	r.over, r.polled = make(chan error, 1), true
	p.mu.Lock()
	p.next++
	id := p.next
	p.readers[id] = r
	p.mu.Unlock()
	err := p.watch(s, unix.EPOLL_CTL_ADD, unix.EPOLLIN, id)
	if err == nil {
		if s.id.Store(id); s.wants.Load() {
			_ = p.watch(s, unix.EPOLL_CTL_MOD, unix.EPOLLIN|unix.EPOLLOUT, id)
		}
		select {
		case err = <-r.over:
		case <-r.line.closed: // a closed connection has no events
			err = os.ErrClosed
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.readers, id)
	return err
}

func (p *poller) control(f func(ep int) error) error {
	var err error
	ctl := p.raw.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(ctl, err)
}

// watch changes what the poller reports of a socket.
func (p *poller) watch(s *socket, op int, events uint32, id int32) error {
	return p.control(func(ep int) error {
		return s.control(func(fd int) error {
			return unix.EpollCtl(ep, op, fd, &unix.EpollEvent{Events: events, Fd: id})
		})
	})
}

// awaitRoom waits until a socket that was full takes bytes, or is closed. One goroutine at a time waits for a socket.
// It announces itself and then looks for the id; read stores the id and then looks for the announcement.
func (p *poller) awaitRoom(s *socket) error {
	s.wants.Store(true)
	if id := s.id.Load(); id != 0 {
		_ = p.watch(s, unix.EPOLL_CTL_MOD, unix.EPOLLIN|unix.EPOLLOUT, id)
	}
	select {
	case <-s.room:
		return nil
	case <-s.gone:
		return os.ErrClosed
	}
}

// hasRoom ends awaitRoom. It disarms first: the waiter may arm again.
func (s *socket) hasRoom(ep int) {
	s.wants.Store(false)
	_ = s.control(func(fd int) error {
		return unix.EpollCtl(ep, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: s.id.Load()})
	})
	wait.Signal(s.room)
}

// poll handles the events that there are, and returns their number. The caller holds mu.
func (p *poller) poll(ep uintptr) int {
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, ep, uintptr(unsafe.Pointer(&p.events[0])),
		uintptr(len(p.events)), 0, 0, 0)
	if e != 0 {
		return 0
	}
	for i := range int(n) {
		event := &p.events[i]
		r := p.readers[event.Fd]
		if r == nil {
			continue
		}
		s := r.line.sock
		if event.Events&unix.EPOLLOUT != 0 {
			s.hasRoom(int(ep))
		}
		if event.Events == unix.EPOLLOUT {
			continue
		}
		err := s.control(func(fd int) error { return r.step(uintptr(fd)) })
		if err != unix.EAGAIN {
			// Remove it: an end of stream is reported for ever.
			_ = s.control(func(fd int) error { return unix.EpollCtl(int(ep), unix.EPOLL_CTL_DEL, fd, nil) })
			delete(p.readers, event.Fd)
			r.over <- err
		}
	}
	return int(n)
}

// try polls until there is no event, unless another goroutine polls. An event that it left would not wake run, which
// sleeps until a new one comes. While a goroutine polls again and again, one round is enough: that goroutine's next
// round takes the rest. When the goroutine ends, leave wakes run for the events that remain.
func (p *poller) try() {
	if p.mu.TryLock() {
		_ = p.raw.Control(func(ep uintptr) {
			for p.poll(ep) > 0 && p.others.Load() == 0 {
			}
		})
		p.mu.Unlock()
	}
}

// run handles events until close.
func (p *poller) run() {
	spin := peer.Spin()
	for {
		var last time.Time
		err := p.asleep.Read(func(uintptr) bool {
			for {
				n := 0
				p.mu.Lock()
				ctl := p.raw.Control(func(ep uintptr) { n = p.poll(ep) })
				p.mu.Unlock()
				switch now := time.Now(); {
				case ctl != nil:
					return true
				case n > 0 || last.IsZero():
					last = now
				case p.waiters.Load()+p.others.Load() > 0 || now.Sub(last) > spin:
					last = time.Time{}
					return false // sleep until an event comes
				}
				runtime.Gosched()
			}
		})
		if err != nil {
			return
		}
	}
}

func (p *poller) close() { _, _ = p.alarm.Close(), p.file.Close() }
