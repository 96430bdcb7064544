package primitive

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport"
)

// ProxyService moves data for the PortChannels of kernels: one FIFO, one goroutine, any number of connections,
// semaphores and memories. A process may have several.
//
// Memories and semaphores have ids, which are reused after Remove. The tables are copied on each change, so the hot
// path reads them without a lock.
type ProxyService struct {
	ctx   *Context
	dev   device.Device
	proxy *Proxy

	mu         sync.Mutex // guards changes of the tables below
	semaphores atomic.Pointer[[]*proxySemaphore]
	memories   atomic.Pointer[[]*proxyMemory]
	orders     map[*Connection]*token // guarded by mu
}

type proxySemaphore struct {
	future *Future[*Semaphore] // of BuildAndAddSemaphore; nil after AddSemaphore
	sema   atomic.Pointer[Semaphore]
	flush  *token // its counter is the flushDone word
}

type proxyMemory struct {
	mem *RegisteredMemory
	// at holds the memory's location as each connection addresses it. Only the proxy's goroutine uses it.
	at map[*Connection]transport.Remote
}

// NewProxyService makes a service for kernels of dev. The caller must Start it.
func NewProxyService(c *Context, dev device.Device, opt ProxyOptions) (*ProxyService, error) {
	s := &ProxyService{ctx: c, dev: dev, orders: map[*Connection]*token{}}
	s.semaphores.Store(new([]*proxySemaphore))
	s.memories.Store(new([]*proxyMemory))
	var err error
	s.proxy, err = NewProxy(c, dev, s.handle, opt)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Start starts the proxy.
func (s *ProxyService) Start() error { return s.proxy.Start() }

// Stop executes the earlier requests of kernels and stops the proxy. It returns the first error since the last Stop.
func (s *ProxyService) Stop() error { return s.proxy.Stop() }

// Err returns the first error since the last Stop.
func (s *ProxyService) Err() error { return s.proxy.Err() }

// Close stops the proxy and frees it. It does not close memories and semaphores.
func (s *ProxyService) Close() error {
	err := s.proxy.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range *s.semaphores.Load() {
		if e != nil {
			s.free(e)
		}
	}
	for _, t := range s.orders {
		t.pool.put(t)
	}
	clear(s.orders)
	s.semaphores.Store(new([]*proxySemaphore))
	s.memories.Store(new([]*proxyMemory))
	return err
}

// insert puts v into the first free entry of a copied table, which has at most limit entries.
func insert[T any](table *atomic.Pointer[[]*T], v *T, limit int) (int, bool) {
	next := slices.Clone(*table.Load())
	i := slices.Index(next, nil)
	if i < 0 {
		i, next = len(next), append(next, nil)
	}
	if i >= limit {
		return 0, false
	}
	next[i] = v
	table.Store(&next)
	return i, true
}

// remove clears an entry of a copied table.
func remove[T any](table *atomic.Pointer[[]*T], i int) *T {
	next := slices.Clone(*table.Load())
	if i < 0 || i >= len(next) {
		return nil
	}
	v := next[i]
	next[i] = nil
	table.Store(&next)
	return v
}

func entry[T any](table *atomic.Pointer[[]*T], i uint32) *T {
	if t := *table.Load(); uint64(i) < uint64(len(t)) {
		return t[i]
	}
	return nil
}

const maxProxySemaphores = 1 << 20

// AddSemaphore makes a semaphore usable by triggers.
func (s *ProxyService) AddSemaphore(sema *Semaphore) (SemaphoreID, error) {
	if sema == nil {
		return 0, invalid("add semaphore", "the semaphore is nil")
	}
	e := &proxySemaphore{}
	e.sema.Store(sema)
	return s.addSemaphore(e)
}

// BuildAndAddSemaphore builds a semaphore over conn with the peer, which makes the same call, and adds it. It does not
// wait for the peer; PortChannel does.
func (s *ProxyService) BuildAndAddSemaphore(comm *Communicator, conn *Connection) (SemaphoreID, error) {
	if comm == nil || conn == nil {
		return 0, invalid("build and add semaphore", "communicator and connection must be there")
	}
	return s.addSemaphore(&proxySemaphore{future: comm.BuildSemaphore(conn, conn.PeerRank(), conn.Tag())})
}

func (s *ProxyService) addSemaphore(e *proxySemaphore) (SemaphoreID, error) {
	const op = "add semaphore"
	pool, err := s.ctx.tokenPool(s.dev, true)
	if err != nil {
		return 0, s.ctx.wrap(err, op, NoRank)
	}
	if e.flush, err = pool.get(s.ctx); err != nil {
		return 0, s.ctx.wrap(err, op, NoRank)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := insert(&s.semaphores, e, maxProxySemaphores)
	if !ok {
		pool.put(e.flush)
		return 0, invalid(op, "a service has at most %d semaphores", maxProxySemaphores)
	}
	return SemaphoreID(i), nil
}

// RemoveSemaphore frees the id. No kernel may use it after that.
func (s *ProxyService) RemoveSemaphore(id SemaphoreID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := remove(&s.semaphores, int(id)); e != nil {
		s.free(e)
	}
}

func (s *ProxyService) free(e *proxySemaphore) {
	s.ctx.waits(e.flush, nil)
	e.flush.pool.put(e.flush)
}

// AddMemory makes a memory usable by triggers: local memory as a source, a peer's as a destination.
func (s *ProxyService) AddMemory(m *RegisteredMemory) (MemoryID, error) {
	const op = "add memory"
	if m == nil {
		return 0, invalid(op, "the memory is nil")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := insert(&s.memories, &proxyMemory{mem: m, at: map[*Connection]transport.Remote{}}, MaxMemoryID+1)
	if !ok {
		return 0, invalid(op, "a service has at most %d memories: remove some, or use a second service", MaxMemoryID+1)
	}
	return MemoryID(i), nil
}

// RemoveMemory frees the id. No kernel may use it after that.
func (s *ProxyService) RemoveMemory(id MemoryID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	remove(&s.memories, int(id))
}

// Semaphore returns the semaphore of an id. It waits for the peer if the semaphore is still being built.
func (s *ProxyService) Semaphore(ctx context.Context, id SemaphoreID) (*Semaphore, error) {
	e := entry(&s.semaphores, uint32(id))
	if e == nil {
		return nil, invalid("semaphore", "the service has no semaphore %d", id)
	}
	if sema := e.sema.Load(); sema != nil {
		return sema, nil
	}
	sema, err := e.future.Get(ctx)
	if err == nil {
		e.sema.Store(sema)
	}
	return sema, err
}

// handle executes one trigger: data, then flag, then sync, each on the semaphore's connection, which keeps the order of
// the calls.
func (s *ProxyService) handle(t Trigger, position uint64) error {
	e := entry(&s.semaphores, uint32(t.Semaphore))
	var sema *Semaphore
	if e != nil {
		sema = e.sema.Load()
	}
	if sema == nil {
		return invalid("trigger", "the service has no semaphore %d that is built", t.Semaphore)
	}
	conn := sema.conn
	if t.Type&TriggerData != 0 {
		if err := s.copy(conn, &t); err != nil {
			return conn.wrap(err, "port channel put")
		}
	}
	if t.Type&TriggerFlag != 0 {
		if err := sema.signal(); err != nil {
			return conn.wrap(err, "port channel signal")
		}
	}
	if t.Type&TriggerSync != 0 {
		if err := conn.link.Mark(e.flush.inbound(), position+1); err != nil {
			return conn.wrap(err, "port channel flush")
		}
	}
	return nil
}

func (s *ProxyService) copy(conn *Connection, t *Trigger) error {
	dst, src := entry(&s.memories, uint32(t.Dst)), entry(&s.memories, uint32(t.Src))
	switch {
	case dst == nil || src == nil:
		return fmt.Errorf("%w: the service has no memory %d or no memory %d", ErrInvalid, t.Dst, t.Src)
	case !dst.mem.inBounds(t.DstOffset, t.Size):
		return fmt.Errorf("%w: %d bytes at offset %d of destination %d of %d bytes", ErrInvalid, t.Size, t.DstOffset, t.Dst,
			dst.mem.size)
	case !src.mem.inBounds(t.SrcOffset, t.Size):
		return fmt.Errorf("%w: %d bytes at offset %d of source %d of %d bytes", ErrInvalid, t.Size, t.SrcOffset, t.Src,
			src.mem.size)
	case t.Size == 0:
		return nil
	}
	to, ok := dst.at[conn]
	if !ok {
		ctx, cancel := s.ctx.bounded(context.Background())
		defer cancel()
		var err error
		if to, err = dst.mem.remote(ctx, conn); err != nil {
			return err
		}
		dst.at[conn] = to
	}
	from, err := src.mem.mapOn(context.Background(), conn.local.dev)
	if err != nil {
		return err
	}
	return conn.link.Write(to.Add(t.DstOffset), from.Add(int64(t.SrcOffset)), int64(t.Size))
}
