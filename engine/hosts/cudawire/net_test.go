package cudawire

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport"
)

// memNet is a network inside of this process that delivers puts in random order, and has a short queue for them.
type memNet struct {
	mu      sync.Mutex
	regions map[uint64]*memRegion
	peers   map[uint64]*memPeer
	next    uint64
	seed    uint64
}

func newMemNet(seed uint64) *memNet {
	return &memNet{regions: map[uint64]*memRegion{}, peers: map[uint64]*memPeer{}, seed: seed}
}

func (n *memNet) id() uint64 { n.next++; return n.next }

// memRegion's bytes are not accessed after its Close.
type memRegion struct {
	id uint64
	mu sync.RWMutex
	b  []byte // nil after Close
	n  int64
}

func (r *memRegion) Key() []byte { return binary.LittleEndian.AppendUint64(nil, r.id) }
func (r *memRegion) Size() int64 { return r.n }

func (r *memRegion) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.b = nil
	return nil
}

func (n *memNet) Register(dev device.Device, p device.Ptr, size int64) (transport.Region, error) {
	if dev.ID().Kind != device.Host {
		return nil, transport.ErrNotReachable
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	r := &memRegion{id: n.id(), b: device.Bytes(p, size), n: size}
	n.regions[r.id] = r
	return r, nil
}

func (n *memNet) NewPeer() (transport.Peer, error) { return n.newPeer(nil), nil }

// newPeer makes a peer. before, if it is not nil, returns when the next put may be delivered to it.
func (n *memNet) newPeer(before func(broken <-chan struct{})) *memPeer {
	n.mu.Lock()
	defer n.mu.Unlock()
	p := &memPeer{net: n, id: n.id(), failed: make(chan struct{}), rng: rand.New(rand.NewPCG(n.seed, n.next)),
		count: map[uint32]uint64{}, call: map[uint32]func(uint64){}, before: before}
	n.peers[p.id] = p
	go p.deliver()
	return p
}

func (n *memNet) Close() error                     { return nil }
func (n *memNet) Name() string                     { return "memory" }
func (n *memNet) NICs() ([]transport.NIC, error)   { return make([]transport.NIC, 1), nil }
func (n *memNet) Open(int) (transport.Port, error) { return n, nil }

type memPut struct {
	src      *memRegion
	dst      *memRegion
	from, to int64
	size     int64
	imm      uint32
	done     func(error)
}

func (x *memPut) copy() {
	for _, r := range []*memRegion{x.src, x.dst} {
		r.mu.RLock()
		defer r.mu.RUnlock()
	}
	if x.src.b != nil && x.dst.b != nil {
		copy(x.dst.b[x.to:][:x.size], x.src.b[x.from:])
	}
}

// memPeer's queue is taken from at random places.
type memPeer struct {
	net    *memNet
	id     uint64
	rng    *rand.Rand
	failed chan struct{}
	once   sync.Once
	before func(broken <-chan struct{})

	mu    sync.Mutex
	other *memPeer
	queue []memPut
	count map[uint32]uint64
	call  map[uint32]func(uint64)
	err   error
}

func (p *memPeer) Address() []byte { return binary.LittleEndian.AppendUint64(nil, p.id) }

func (p *memPeer) Connect(_ context.Context, remote []byte) error {
	p.net.mu.Lock()
	o := p.net.peers[binary.LittleEndian.Uint64(remote)]
	p.net.mu.Unlock()
	p.mu.Lock()
	p.other = o
	p.mu.Unlock()
	return nil
}

func (p *memPeer) Import(key []byte) (transport.RemoteRegion, error) {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	return p.net.regions[binary.LittleEndian.Uint64(key)], nil
}

func (p *memPeer) Put(src transport.Region, srcOff int64, dst transport.RemoteRegion, dstOff, size int64, imm uint32,
	done func(error)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	if imm >= transport.NumImmediates {
		return fmt.Errorf("%w: immediate %d", transport.ErrBounds, imm)
	}
	if len(p.queue) >= 5 {
		return transport.ErrQueueFull
	}
	p.queue = append(p.queue, memPut{src.(*memRegion), dst.(*memRegion), srcOff, dstOff, size, imm, done})
	return nil
}

func (p *memPeer) deliver() {
	for {
		select {
		case <-p.failed:
			return
		default:
		}
		p.mu.Lock()
		if len(p.queue) == 0 || p.other == nil {
			p.mu.Unlock()
			time.Sleep(20 * time.Microsecond)
			continue
		}
		i := p.rng.IntN(len(p.queue))
		x, o := p.queue[i], p.other
		p.queue = append(p.queue[:i], p.queue[i+1:]...)
		p.mu.Unlock()
		if o.before != nil {
			o.before(o.failed)
		}
		x.copy()
		o.mu.Lock()
		o.count[x.imm]++
		n, f := o.count[x.imm], o.call[x.imm]
		if f != nil {
			f(n)
		}
		o.mu.Unlock()
		if x.done != nil {
			x.done(nil)
		}
	}
}

func (p *memPeer) Arrived(imm uint32) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count[imm]
}

func (p *memPeer) OnArrival(imm uint32, f func(uint64)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.call[imm] = f
}

func (p *memPeer) Wait(context.Context, uint32, uint64) error { return nil }
func (p *memPeer) Flush(context.Context) error                { return nil }
func (p *memPeer) Failed() <-chan struct{}                    { return p.failed }

func (p *memPeer) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *memPeer) Close() error { p.break_(transport.ErrClosed); return nil }

// break_ ends this half.
func (p *memPeer) break_(err error) {
	p.once.Do(func() {
		p.mu.Lock()
		p.err = err
		p.mu.Unlock()
		close(p.failed)
	})
}
