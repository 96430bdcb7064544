package primitive

import (
	"errors"
	"sync"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport"
)

// slabTokens is the number of tokens in one allocation: 64 KiB on the host; on a GPU the allocation granularity makes
// it 2 MiB.
const slabTokens = 512

// tokenPoolKey identifies the tokens of one device. The processor can access mapped tokens.
type tokenPoolKey struct {
	dev    device.Device
	mapped bool
}

// tokenPool allocates semaphore tokens (see transport.TokenSize) from few, large allocations, so that hundreds of
// semaphores cost a peer one mapping. A freed token goes to the end of the queue, so that a late signal of its former
// peer rarely reaches a new owner.
type tokenPool struct {
	key tokenPoolKey

	mu    sync.Mutex
	slabs []*slab
	free  []*token
}

// slab is one allocation of tokens and its registration for peers.
type slab struct {
	alloc device.Allocation
	mem   *RegisteredMemory
}

// token is one side of a semaphore.
type token struct {
	pool   *tokenPool
	slab   *slab
	ptr    device.Ptr
	offset int64
}

func (t *token) inbound() device.Ptr  { return t.ptr }
func (t *token) expected() device.Ptr { return t.ptr.Add(transport.TokenExpectedOffset) }

// tokenPool returns the pool of dev. The first call makes it.
func (c *Context) tokenPool(dev device.Device, mapped bool) (*tokenPool, error) {
	key := tokenPoolKey{dev, mapped && !reachable(dev)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ErrClosed
	}
	p := c.tokens[key]
	if p == nil {
		p = &tokenPool{key: key}
		c.tokens[key] = p
	}
	return p, nil
}

// get returns a zeroed token.
func (p *tokenPool) get(c *Context) (*token, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		if err := p.grow(c); err != nil {
			return nil, err
		}
	}
	t := p.free[0]
	p.free = p.free[1:]
	if p.key.mapped || reachable(p.key.dev) {
		clear(device.Bytes(t.ptr, transport.TokenSize))
		return t, nil
	}
	return t, p.key.dev.CopyIn(t.ptr, make([]byte, transport.TokenSize))
}

func (p *tokenPool) grow(c *Context) error {
	const size = slabTokens * transport.TokenSize
	var a device.Allocation
	var err error
	if p.key.mapped {
		a, err = allocMapped(p.key.dev, size)
	} else {
		a, err = p.key.dev.Alloc(size)
	}
	if err != nil {
		return err
	}
	s := &slab{alloc: a, mem: c.newLocal(p.key.dev, a.Ptr(), size, AllTransports, true, p.key.mapped)}
	p.slabs = append(p.slabs, s)
	for i := range int64(slabTokens) {
		p.free = append(p.free, &token{pool: p, slab: s, ptr: a.Ptr().Add(i * transport.TokenSize),
			offset: i * transport.TokenSize})
	}
	return nil
}

func (p *tokenPool) put(t *token) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, t)
}

func (p *tokenPool) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, s := range p.slabs {
		errs = append(errs, s.mem.Close(), s.alloc.Close())
	}
	p.slabs, p.free = nil, nil
	return errors.Join(errs...)
}
