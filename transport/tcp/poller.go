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
)

// poller reads lane 0 of every peer of a Port. Sleeping and waking takes longer than a small put, so a goroutine
// that waits for an arrival polls, and after activity a goroutine polls on for some microseconds before it sleeps. One
// epoll instance serves all: the number of peers does not matter.
//
// Lock: mu is held while events are handled, so arrivals of lane 0 come from one goroutine at a time.
type poller struct {
	file    *os.File // the epoll instance
	raw     syscall.RawConn
	waiters atomic.Int32 // goroutines that poll while they wait

	mu      sync.Mutex // guards the fields below
	next    int32
	readers map[int32]*reader
	events  [32]unix.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("tcp: epoll: %w", err)
	}
	_ = unix.SetNonblock(fd, true) // so that Go waits for it as for a socket
	p := &poller{file: os.NewFile(uintptr(fd), "epoll"), readers: map[int32]*reader{}}
	if p.raw, err = p.file.SyscallConn(); err != nil {
		return nil, errors.Join(err, p.file.Close())
	}
	return p, nil
}

// read applies what arrives on r's connection until it ends.
func (p *poller) read(r *reader) error {
	r.over, r.polled = make(chan error, 1), true
	p.mu.Lock()
	p.next++
	id := p.next
	p.readers[id] = r
	p.mu.Unlock()
	err := p.control(func(ep int) error {
		var err error
		ctl := r.line.raw.Control(func(fd uintptr) {
			err = unix.EpollCtl(ep, unix.EPOLL_CTL_ADD, int(fd), &unix.EpollEvent{Events: unix.EPOLLIN, Fd: id})
		})
		return errors.Join(ctl, err)
	})
	if err == nil {
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

// poll handles the events that there are, and returns their number. The caller holds mu.
func (p *poller) poll(ep uintptr) int {
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_WAIT, ep, uintptr(unsafe.Pointer(&p.events[0])),
		uintptr(len(p.events)), 0, 0, 0)
	if e != 0 {
		return 0
	}
	for i := range int(n) {
		r := p.readers[p.events[i].Fd]
		if r == nil {
			continue
		}
		var err error
		if ctl := r.line.raw.Control(func(fd uintptr) { err = r.step(fd) }); ctl != nil {
			err = ctl
		}
		if err != unix.EAGAIN {
			// Remove it: an end of stream is reported for ever.
			_ = r.line.raw.Control(func(fd uintptr) { _ = unix.EpollCtl(int(ep), unix.EPOLL_CTL_DEL, int(fd), nil) })
			delete(p.readers, p.events[i].Fd)
			r.over <- err
		}
	}
	return int(n)
}

// try polls until there is no event, unless another goroutine polls. An event that it left would not wake run, which
// sleeps until a new one comes.
func (p *poller) try() {
	if p.mu.TryLock() {
		_ = p.raw.Control(func(ep uintptr) {
			for p.poll(ep) > 0 {
			}
		})
		p.mu.Unlock()
	}
}

// pollFor is how long the poller polls after the last event, if there are processors to spare.
func pollFor() time.Duration {
	if runtime.GOMAXPROCS(0) < 4 {
		return 5 * time.Microsecond
	}
	return 50 * time.Microsecond
}

// run handles events until close.
func (p *poller) run() {
	spin := pollFor()
	for {
		var last time.Time
		err := p.raw.Read(func(ep uintptr) bool {
			for {
				p.mu.Lock()
				n := p.poll(ep)
				p.mu.Unlock()
				switch now := time.Now(); {
				case n > 0 || last.IsZero():
					last = now
				case p.waiters.Load() > 0 || now.Sub(last) > spin:
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

func (p *poller) close() { _ = p.file.Close() }
