package primitive

import (
	"cmp"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
)

// ProxyHandler executes one trigger. It runs on the proxy's goroutine, in the order of the FIFO; the slot is freed when
// it returns. After an error the proxy aborts its Context, so that kernels that wait for the trigger end; the proxy
// continues, and Stop returns the first error. ErrStopProxy ends the proxy without an abort.
type ProxyHandler func(t Trigger, position uint64) error

// ErrStopProxy ends the proxy of the handler that returns it.
var ErrStopProxy = errors.New("stop the proxy")

// Proxy is a goroutine that takes triggers from a Fifo and passes them to a handler.
//
// An idle proxy uses no core. For kernels of the host device it sleeps on the FIFO's doorbell. A GPU cannot wake a
// thread, so for a GPU it polls without pause for SpinFor after the last trigger and then sleeps between polls, 5 µs at
// first and at most 100 µs: there is no cost in busy phases, and the first trigger after a pause waits 0.1–0.2 ms at
// most.
type Proxy struct {
	ctx     *Context
	dev     device.Device
	fifo    *Fifo
	handler ProxyHandler
	opt     ProxyOptions

	stopping atomic.Bool

	mu      sync.Mutex // guards the fields below
	running chan struct{}
	err     error
	closed  bool
	ended   chan struct{} // closed when Close is done
}

// ProxyOptions configures a Proxy. The zero value is usable.
type ProxyOptions struct {
	// FifoSize is the number of slots; 0 is DefaultFifoSize.
	FifoSize int
	// SpinFor is how long a proxy of a GPU polls without pause after the last trigger; 0 is 1 ms.
	SpinFor time.Duration
}

const (
	defaultSpinFor = time.Millisecond
	firstNap       = 5 * time.Microsecond
	longestNap     = 100 * time.Microsecond
)

// NewProxy makes a proxy for kernels of dev. The caller must Close it.
func NewProxy(c *Context, dev device.Device, handler ProxyHandler, opt ProxyOptions) (*Proxy, error) {
	if handler == nil {
		return nil, invalid("proxy", "no handler")
	}
	if opt.SpinFor <= 0 {
		opt.SpinFor = defaultSpinFor
	}
	f, err := NewFifo(c, dev, opt.FifoSize)
	if err != nil {
		return nil, err
	}
	p := &Proxy{ctx: c, dev: dev, fifo: f, handler: handler, opt: opt, ended: make(chan struct{})}
	if err := c.own(p); err != nil {
		return nil, errors.Join(c.wrap(err, "proxy", NoRank), f.Close())
	}
	return p, nil
}

// Fifo returns the proxy's FIFO.
func (p *Proxy) Fifo() *Fifo { return p.fifo }

// Start starts the goroutine. It does nothing if the proxy is running.
func (p *Proxy) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return p.ctx.wrap(ErrClosed, "start proxy", NoRank)
	}
	if p.running != nil {
		return nil
	}
	p.stopping.Store(false)
	done := make(chan struct{})
	p.running = done
	go func() {
		defer close(done)
		p.run()
	}()
	return nil
}

// Stop executes the triggers pushed before and ends the proxy. It returns the first error of a handler since the last
// Stop. Start may follow.
func (p *Proxy) Stop() error {
	p.mu.Lock()
	done := p.running
	p.mu.Unlock()
	if done != nil {
		p.stopping.Store(true)
		p.fifo.doorbell().Wake()
		<-done
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running == done {
		p.running = nil
	}
	err := p.err
	p.err = nil
	return err
}

// Err returns the first error of a handler since the last Stop.
func (p *Proxy) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Close stops the proxy and frees the FIFO. No kernel may push after that. Every call returns only after the proxy has
// ended.
func (p *Proxy) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		<-p.ended
		return nil
	}
	p.closed = true
	p.mu.Unlock()
	defer close(p.ended)
	_ = p.Stop()
	err := p.fifo.Close()
	p.ctx.disown(p) // not earlier: Context.Close unmaps memory that a disowned proxy might still use
	return err
}

// run is the proxy's loop:
//
//  1. Run Init.
//  2. Execute triggers as long as there are any.
//  3. Return if Stop was called and no trigger is left.
//  4. Wait for the next trigger, the doorbell, or Stop.
func (p *Proxy) run() {
	gpu := !reachable(p.dev)
	if gpu {
		// The poller keeps its thread, so that no goroutine switch delays a trigger.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	for {
		for {
			t, pos, ok := p.fifo.Poll()
			if !ok {
				break
			}
			err := p.handler(t, pos)
			p.fifo.Pop()
			if errors.Is(err, ErrStopProxy) {
				return
			}
			if err != nil {
				p.failed(err)
			}
		}
		if p.stopping.Load() {
			return
		}
		wake := func() bool { return p.fifo.ready() || p.stopping.Load() }
		if gpu {
			p.pollGPU(wake)
		} else if err := wait.Until(p.fifo.doorbell(), wake, wait.Limit{}, nil); err != nil {
			p.failed(err)
			return
		}
	}
}

// pollGPU polls memory that a GPU writes.
func (p *Proxy) pollGPU(wake func() bool) {
	for end := time.Now().Add(p.opt.SpinFor); time.Now().Before(end); {
		for range 64 {
			if wake() {
				return
			}
		}
	}
	for nap := firstNap; !wake(); nap = min(2*nap, longestNap) {
		ts := unix.NsecToTimespec(int64(nap))
		_ = unix.Nanosleep(&ts, nil)
	}
}

func (p *Proxy) failed(err error) {
	p.mu.Lock()
	p.err = cmp.Or(p.err, err)
	p.mu.Unlock()
	p.ctx.Abort(p.ctx.wrap(err, "proxy", NoRank))
}
