package plugin

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/driver/ncclnet"
	"github.com/goccl/goccl/transport"
)

// progress is the state of the goroutine that calls the plugin, under the Peer's mu.
type progress struct {
	handles [2]ncclnet.Handle // of the buffer on controlOut and controlIn

	outgoing [inFlight]ncclnet.Request // control messages being sent, in order from oldest
	oldest   int
	posted   [inFlight]ncclnet.Request // receives of control messages, in order from next
	next     int
	sends    []transfer // announced; those with a request are being sent
	receives []transfer // the same of this side's receives

	arriving     map[uint64]uint64   // pieces to come, of puts of which some have
	arrived      map[uint64]struct{} // puts beyond upTo
	upTo         uint64              // every put up to this number has arrived
	acked        uint64
	lastReceived time.Time
	said         time.Time
}

// transfer is a data message.
type transfer struct {
	piece
	req   ncclnet.Request
	flush bool // req is the flush
}

// prepare registers the control buffer and posts its receives. The caller holds mu.
func (p *Peer) prepare() error {
	b, err := unix.Mmap(-1, 0, 2*inFlight*controlSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	p.buffer = b
	_, at := p.slot(0)
	s := &p.progress
	for i, c := range [2]int{controlOut, controlIn} {
		s.handles[i], err = p.lib.Register(p.comms[c], at, int64(len(b)), ncclnet.Host)
		if err != nil {
			return err
		}
	}
	s.arriving, s.arrived = map[uint64]uint64{}, map[uint64]struct{}{}
	s.lastReceived, s.said = time.Now(), time.Now()
	return nil
}

// run calls the plugin until the Peer fails, says goodbye, and closes the connections.
func (p *Peer) run() {
	defer close(p.finished)
	last := time.Now()
	pause := time.Duration(0)
	for p.Err() == nil {
		p.mu.Lock()
		did, err := p.step()
		p.mu.Unlock()
		if err != nil {
			p.fail(err)
			break
		}
		switch idle := time.Since(last); {
		case did:
			last, pause = time.Now(), 0
			continue
		case idle < 50*time.Microsecond:
			runtime.Gosched()
			continue
		case p.waiters.Load() > 0:
			pause = 20 * time.Microsecond
		default:
			pause = min(time.Millisecond, pause+50*time.Microsecond)
		}
		select {
		case <-p.kick:
			last = time.Now()
		case <-time.After(pause):
		}
	}
	p.mu.Lock()
	p.farewell()
	p.cleanUp()
	p.mu.Unlock()
	p.endAll()
}

// step makes each kind of progress once.
func (p *Peer) step() (did bool, err error) {
	for _, f := range [...]func() (bool, error){p.readControl, p.writeControl, p.moveOut, p.moveIn} {
		d, err := f()
		if err != nil {
			return did, err
		}
		did = did || d
	}
	if time.Since(p.progress.lastReceived) > p.port.net.opt.Silence {
		return did, fmt.Errorf("%w: plugin: nothing was received for %v", transport.ErrPeerGone, p.port.net.opt.Silence)
	}
	return did, nil
}

func gone(err error) error { return fmt.Errorf("%w: %w", transport.ErrPeerGone, err) }

// slot returns the place of control message i, and its address.
func (p *Peer) slot(i int) ([]byte, uintptr) {
	b := p.buffer[i*controlSize:][:controlSize]
	return b, uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}
