package plugin

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver/ncclnet"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/peer"
)

// Port implements transport.Port.
type Port struct {
	net    *Net
	dev    int
	memory int
	flush  bool
	piece  int64

	mu      sync.Mutex // guards the fields below
	closed  bool
	regions map[uint64]*region
	peers   map[*Peer]struct{}
}

// region is registered memory. Plugins register it for each connection; a Peer does so when it first uses the region.
type region struct {
	port *Port
	id   uint64
	ptr  device.Ptr
	size int64
	kind int // of ncclnet
}

const (
	kindRegion     = 0x51
	kindAddress    = 0x50
	addressVersion = 1
)

// Register makes memory available: the host's, and a GPU's if the plugin can.
func (p *Port) Register(dev device.Device, ptr device.Ptr, size int64) (transport.Region, error) {
	kind := ncclnet.Host
	if dev != nil && dev.ID().Kind == device.CUDA {
		kind = ncclnet.CUDA
	}
	switch {
	case p.memory&kind == 0:
		return nil, fmt.Errorf("plugin: register memory of %s: %w: stage through host memory", dev.ID(),
			transport.ErrNotReachable)
	case ptr == 0 || size <= 0:
		return nil, fmt.Errorf("plugin: register %d bytes: %w: no memory", size, transport.ErrBounds)
	}
	r := &region{port: p, id: peer.NewID(), ptr: ptr, size: size, kind: kind}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, transport.ErrClosed
	}
	p.regions[r.id] = r
	return r, nil
}

// Key names the region.
func (r *region) Key() []byte { return peer.Key(kindRegion, r.id, r.size) }

// Close ends the registration with every Peer.
func (r *region) Close() error {
	r.port.mu.Lock()
	delete(r.port.regions, r.id)
	r.port.mu.Unlock()
	for _, p := range r.port.snapshot() {
		p.forget(r)
	}
	return nil
}

func (p *Port) region(id uint64) *region {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.regions[id]
}

func (p *Port) snapshot() []*Peer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Collect(maps.Keys(p.peers))
}

// NewPeer makes this side's listeners.
func (p *Port) NewPeer() (transport.Peer, error) {
	q, err := newPeer(p)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		q.closeListeners()
		return nil, transport.ErrClosed
	}
	p.peers[q] = struct{}{}
	return q, nil
}

// Close closes the Peers.
func (p *Port) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	var all sync.WaitGroup
	for _, q := range p.snapshot() {
		all.Go(func() { _ = q.Close() })
	}
	all.Wait()
	return nil
}

// forget ends a region's registrations with the Peer's connections, once no message uses the memory. A message that
// does not end in time breaks the Peer, and with it the message.
func (p *Peer) forget(r *region) {
	for end := time.Now().Add(forgetTime); ; time.Sleep(50 * time.Microsecond) {
		p.mu.Lock()
		if p.over || p.users[r] == 0 {
			for c := range p.comms {
				if h, ok := p.handles[use{r, c}]; ok && !p.over {
					_ = p.lib.Deregister(p.comms[c], h)
				}
				delete(p.handles, use{r, c})
			}
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		if time.Now().After(end) {
			p.fail(fmt.Errorf("%w: a message does not end, and its memory was closed", transport.ErrPeerGone))
		}
	}
}

const forgetTime = 2 * time.Second
