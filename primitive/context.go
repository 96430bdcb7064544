package primitive

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/setting"
)

// Context owns communication resources: endpoints, connections, mappings, counters, and the abort block that ends all
// waits. A process may have several Contexts; they share only the mappings of peers' memory.
type Context struct {
	opt   contextOptions
	rank  atomic.Int64
	abort *abortPage // nil if it could not be made: see failed
	fail  error

	mu       sync.Mutex // guards the fields below
	closed   bool
	cause    error         // the cause of an Abort
	done     chan struct{} // closed by Abort, replaced by Recover
	networks map[Transport]*network
	tokens   map[tokenPoolKey]*tokenPool
	streams  map[device.Device]*streamPool
	owned    map[closer]uint64 // resources that Close ends, with their ages, newest first
	age      uint64
	waiters  map[device.Ptr]*Connection // the connection whose counter is at an address, for reports
}

// closer is a resource of a Context.
type closer interface{ Close() error }

type contextOptions struct {
	timeout, spinLimit time.Duration
	listen             netip.Addr
	log                *slog.Logger
}

// ContextOption changes a Context's defaults.
type ContextOption func(*contextOptions)

// WithTimeout sets how long host calls of this Context wait: 30 s unless set here or by GOCCL_TIMEOUT.
func WithTimeout(d time.Duration) ContextOption { return func(o *contextOptions) { o.timeout = d } }

// WithSpinLimit sets how long one wait in a kernel may take: 10 minutes unless set here or by GOCCL_SPIN_LIMIT; 0 means
// no limit, so that only an abort ends a wait.
func WithSpinLimit(d time.Duration) ContextOption { return func(o *contextOptions) { o.spinLimit = d } }

// WithListenAddress sets the address at which Ethernet endpoints listen. By default it is an address of the interface
// that GOCCL_SOCKET_IFNAME names, or the address from which this host reaches MASTER_ADDR, or the first address of a
// real interface.
func WithListenAddress(a netip.Addr) ContextOption { return func(o *contextOptions) { o.listen = a } }

// WithLogger sets where refused connections and lost peers are logged: slog.Default unless set.
func WithLogger(l *slog.Logger) ContextOption { return func(o *contextOptions) { o.log = l } }

// NewContext makes a Context. It fails if it cannot allocate a page of memory or if an environment variable is invalid;
// the first use returns that failure.
func NewContext(opts ...ContextOption) *Context {
	env, err := setting.Read("GOCCL_TIMEOUT", "GOCCL_SPIN_LIMIT")
	o := contextOptions{timeout: env.TimeoutOr(30 * time.Second), spinLimit: env.SpinLimit, log: slog.Default()}
	for _, f := range opts {
		f(&o)
	}
	if o.timeout <= 0 {
		o.timeout = 30 * time.Second
	}
	c := &Context{opt: o, done: make(chan struct{}), tokens: map[tokenPoolKey]*tokenPool{},
		streams: map[device.Device]*streamPool{}, networks: map[Transport]*network{},
		owned: map[closer]uint64{}, waiters: map[device.Ptr]*Connection{}}
	c.rank.Store(NoRank)
	c.abort, c.fail = newAbortPage(o.spinLimit)
	if err != nil && c.fail == nil {
		c.fail = fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return c
}

// Timeout returns how long host calls without a deadline wait.
func (c *Context) Timeout() time.Duration { return c.opt.timeout }

// SetRank sets this rank for errors. A Communicator calls it.
func (c *Context) SetRank(rank int) { c.rank.Store(int64(rank)) }

// Rank returns the rank given to SetRank, or NoRank.
func (c *Context) Rank() int { return int(c.rank.Load()) }

// AbortBlock returns the address of the AbortBlock for kernels of dev.
func (c *Context) AbortBlock(dev device.Device) (device.Ptr, error) {
	if err := c.usable("abort block"); err != nil {
		return 0, err
	}
	p, err := c.abort.on(dev)
	return p, c.wrap(err, "abort block", NoRank)
}

// usable returns nil if the Context is usable, else ErrClosed or the failure of NewContext.
func (c *Context) usable(op string) error {
	if c.fail != nil {
		return c.wrap(c.fail, op, NoRank)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.wrap(ErrClosed, op, NoRank)
	}
	return nil
}

// enterWait counts a wait of the host, as enter counts one of a kernel: until leave, Close unmaps nothing.
func (c *Context) enterWait(op string) (leave func(), err error) {
	if c.fail != nil {
		return nil, c.wrap(c.fail, op, NoRank)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, c.wrap(ErrClosed, op, NoRank)
	}
	return enter(c.abort.ptr), nil
}

func (c *Context) wrap(err error, op string, peer int) error { return wrap(err, op, c.Rank(), peer) }

// own makes Close end r. It fails if the Context is closed already; the caller then closes r itself.
func (c *Context) own(r closer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.age++
	c.owned[r] = c.age
	return nil
}

func (c *Context) disown(r closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.owned, r)
}

// Abort ends every wait on host and device with err, which should wrap one of this package's errors: ErrPeerDead when a
// peer died, ErrAborted (also for nil) otherwise. The first cause stays until Recover.
func (c *Context) Abort(err error) {
	err = cmp.Or(err, ErrAborted)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil || c.closed {
		return
	}
	c.cause = err
	c.raise(statusOf(err))
	close(c.done)
}

func (c *Context) raise(s Status) {
	if c.abort != nil {
		c.abort.Raise(uint32(s))
	}
}

func statusOf(err error) Status {
	switch {
	case errors.Is(err, ErrPeerDead):
		return StatusPeerDead
	case errors.Is(err, ErrClosed):
		return StatusClosed
	}
	return StatusAborted
}

// Aborted returns a channel that Abort closes.
func (c *Context) Aborted() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}

// Err returns the cause of an abort, or the report of a kernel whose wait failed, or nil. It costs two loads if there
// is none.
func (c *Context) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cause != nil:
		return c.cause
	case c.closed:
		return c.wrap(ErrClosed, "context", NoRank)
	case c.abort == nil:
		return c.fail
	}
	s := Status(c.abort.Reported.Load())
	if s == StatusOK {
		return nil
	}
	p := c.abort.PeerRank()
	if w := c.waiters[device.Ptr(c.abort.Detail.Load())]; p < 0 {
		if p = NoRank; w != nil {
			p = w.PeerRank()
		}
	}
	return failure(waitOpName(c.abort.Op.Load()), c.Rank(), p, s.Err())
}

// waits records that waits for t's counter wait for conn's peer, so that Err names it; nil: no longer.
func (c *Context) waits(t *token, conn *Connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn == nil {
		delete(c.waiters, t.inbound())
	} else {
		c.waiters[t.inbound()] = conn
	}
}

// Recover clears an abort or a reported timeout, so that waits work again. No kernel of this Context may run. Counters
// keep their values: ranks whose counters disagree must make new semaphores.
func (c *Context) Recover() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.abort == nil {
		return
	}
	if c.cause != nil {
		c.cause = nil
		c.done = make(chan struct{})
	}
	c.abort.Clear()
}

// stopped returns the error of a wait that the abort word ended.
func (c *Context) stopped() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return c.cause
	}
	return ErrClosed
}

// rankOfClosing returns the order of closing: a smaller number is closed earlier.
func rankOfClosing(r closer) int {
	switch r.(type) {
	case *Proxy:
		return 0
	case *Connection:
		return 1
	}
	return 2
}

// drainTimeout is how long Close waits for waiting kernels. A kernel leaves at its next poll of the abort word; on a
// busy machine it must first get a processor.
const drainTimeout = 10 * time.Second

// Close ends every wait with ErrClosed, then closes every resource of the Context. The devices stay open.
func (c *Context) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.raise(StatusClosed)
	if c.cause == nil {
		close(c.done)
	}
	owned, ages := slices.Collect(maps.Keys(c.owned)), c.owned
	c.owned = map[closer]uint64{}
	networks := c.networks
	c.mu.Unlock()

	if c.abort != nil && !c.abort.drain(drainTimeout) {
		// Unmapping memory that a kernel polls would crash the process, so all memory stays mapped.
		return c.wrap(fmt.Errorf("%w: a kernel of the host device still waits; its memory is kept", ErrTimeout),
			"close context", NoRank)
	}
	// A proxy executes its triggers with semaphores and memories that are newer than the proxy, so all proxies end
	// before any memory is unmapped.
	slices.SortFunc(owned, func(a, b closer) int {
		return cmp.Or(cmp.Compare(rankOfClosing(a), rankOfClosing(b)), cmp.Compare(ages[b], ages[a]))
	})
	for _, r := range owned {
		if conn, ok := r.(*Connection); ok {
			if l, ok := conn.link.(interface{ Hurry() }); ok {
				l.Hurry() // a proxy, which is closed below, may be blocked in the link
			}
		}
	}
	errs := make([]error, len(owned))
	var connections sync.WaitGroup // a peer that does not answer the goodbye holds up its connection alone
	for i, r := range owned {
		if _, ok := r.(*Connection); ok {
			connections.Go(func() { errs[i] = r.Close() })
			continue
		}
		connections.Wait()
		errs[i] = r.Close()
	}
	connections.Wait()
	return errors.Join(append(errs, c.release(networks))...)
}

// release closes what the resources of the Context have used.
func (c *Context) release(networks map[Transport]*network) error {
	var errs []error
	for t := IB0; t <= Ethernet; t++ { // Ethernet last: it answers for the others
		if n := networks[t]; n != nil {
			errs = append(errs, n.close())
		}
	}
	c.mu.Lock()
	streams, tokens := c.streams, c.tokens
	c.streams, c.tokens = nil, nil
	c.mu.Unlock()
	for _, s := range streams {
		errs = append(errs, device.CloseAll(s.streams...))
	}
	for _, t := range tokens {
		errs = append(errs, t.close())
	}
	if c.abort != nil {
		errs = append(errs, c.abort.close())
	}
	return errors.Join(errs...)
}
