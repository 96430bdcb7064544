package netfake

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport"
)

// Net is the fabric as one host sees it. It implements transport.Net.
type Net struct {
	fabric *Fabric
	host   string
	slow   uint64
	dead   bool // guarded by the fabric's mu
	ports  int
}

// Name is "fake".
func (n *Net) Name() string { return "fake" }

// NICs lists one adapter.
func (n *Net) NICs() ([]transport.NIC, error) {
	return []transport.NIC{{Name: "fake0"}}, nil
}

var errDead = fmt.Errorf("%w: netfake: this host is dead", transport.ErrClosed)

// Open opens the adapter.
func (n *Net) Open(nic int) (transport.Port, error) {
	if nic != 0 {
		return nil, fmt.Errorf("netfake: open adapter %d: there is one", nic)
	}
	n.fabric.mu.Lock()
	defer n.fabric.mu.Unlock()
	if n.dead {
		return nil, errDead
	}
	n.ports++
	return &Port{net: n, number: n.ports}, nil
}

// Port implements transport.Port.
type Port struct {
	net    *Net
	number int

	mu     sync.Mutex // guards the fields below
	closed bool
	peers  []*Peer
}

// region implements transport.Region.
type region struct {
	fabric *Fabric
	id     uint64
	size   int64
	mu     sync.Mutex // held while bytes are moved; guards mem
	mem    []byte     // nil: closed
}

// remoteRegion implements transport.RemoteRegion.
type remoteRegion struct {
	id   uint64
	size int64
}

func (r *remoteRegion) Size() int64 { return r.size }

// Register makes host memory available.
func (p *Port) Register(dev device.Device, ptr device.Ptr, size int64) (transport.Region, error) {
	switch {
	case dev != nil && dev.ID().Kind != device.Host:
		return nil, fmt.Errorf("netfake: register memory of %s: %w", dev.ID(), transport.ErrNotReachable)
	case ptr == 0 || size <= 0:
		return nil, fmt.Errorf("netfake: register %d bytes: %w: no memory", size, transport.ErrBounds)
	}
	f := p.net.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	r := &region{fabric: f, id: f.next, size: size, mem: device.Bytes(ptr, size)}
	f.regions[r.id] = r
	return r, nil
}

func (r *region) Key() []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64([]byte("fake"), r.id), uint64(r.size))
}

func (r *region) Close() error {
	r.fabric.mu.Lock()
	delete(r.fabric.regions, r.id)
	r.fabric.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mem = nil
	return nil
}

// access calls f with n bytes at off, or reports that the region is closed.
func (r *region) access(off, n int64, f func([]byte)) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mem == nil || off+n > int64(len(r.mem)) {
		return false
	}
	f(r.mem[off : off+n])
	return true
}

func (p *Peer) region(id uint64) *region {
	p.port.net.fabric.mu.Lock()
	defer p.port.net.fabric.mu.Unlock()
	return p.port.net.fabric.regions[id]
}

// Import decodes a key.
func (p *Peer) Import(key []byte) (transport.RemoteRegion, error) {
	if len(key) != 20 || string(key[:4]) != "fake" {
		return nil, errors.New("netfake: this is no key of a region")
	}
	return &remoteRegion{binary.LittleEndian.Uint64(key[4:]), int64(binary.LittleEndian.Uint64(key[12:]))}, nil
}

// Close closes the port's Peers.
func (p *Port) Close() error {
	p.mu.Lock()
	p.closed = true
	peers := p.peers
	p.peers = nil
	p.mu.Unlock()
	var errs []error
	for _, q := range peers {
		errs = append(errs, q.Close())
	}
	return errors.Join(errs...)
}
