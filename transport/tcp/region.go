package tcp

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/peer"
)

// netRegion is registered host memory. Every system call that reads or writes it is inside of enter and leave, and none
// of these calls blocks, so Close waits for no peer.
type netRegion struct {
	port   *Port
	id     uint64
	mem    []byte
	users  atomic.Int64
	closed atomic.Bool
}

// enter reports whether the memory may be used until leave.
func (r *netRegion) enter() bool {
	r.users.Add(1)
	if r.closed.Load() {
		r.users.Add(-1)
		return false
	}
	return true
}

func (r *netRegion) leave() { r.users.Add(-1) }

const kindRegion = 0x31

// Key encodes the id and the size.
func (r *netRegion) Key() []byte { return peer.Key(kindRegion, r.id, int64(len(r.mem))) }

// Close revokes the registration. No peer writes to the memory after it has returned.
func (r *netRegion) Close() error {
	if r.closed.Swap(true) {
		return nil
	}
	r.port.mu.Lock()
	delete(r.port.regions, r.id)
	r.port.mu.Unlock()
	for r.users.Load() != 0 {
		runtime.Gosched()
	}
	return nil
}

// Register makes host memory available. A GPU's own memory is not reachable: the caller stages through host memory that
// it registers with a nil device or with a host device.
func (p *Port) Register(dev device.Device, ptr device.Ptr, size int64) (transport.Region, error) {
	switch {
	case dev != nil && dev.ID().Kind != device.Host:
		return nil, fmt.Errorf("tcp: register memory of %s: %w: stage through pinned host memory", dev.ID(),
			transport.ErrNotReachable)
	case ptr == 0 || size <= 0:
		return nil, fmt.Errorf("tcp: register %d bytes at %#x: %w: no memory", size, uintptr(ptr), transport.ErrBounds)
	}
	r := &netRegion{port: p, id: peer.NewID(), mem: device.Bytes(ptr, size)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, transport.ErrClosed
	}
	p.regions[r.id] = r
	return r, nil
}

func (p *Port) region(id uint64) *netRegion {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.regions[id]
}
