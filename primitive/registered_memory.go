package primitive

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/share"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/ipc"
)

// RegisteredMemory is memory that channels and connections may use: registered local memory, or memory received from a
// peer. A peer's memory is mapped on first use by a connection whose transport requires it.
type RegisteredMemory struct {
	ctx   *Context
	owner device.ID
	ptr   device.Ptr // address at the owner
	size  int64
	flags TransportFlags
	id    uint64 // distinguishes the memories of one process

	dev    device.Device // local memory: its device
	token  bool          // contains semaphore tokens
	mapped bool          // pinned host memory, although the device is a GPU
	origin *origin       // remote memory: its origin

	mu       sync.Mutex // guards the fields below
	closed   bool
	share    *share.Descriptor // local: set by the first Serialize
	revoke   func()
	name     uint64                      // local: what peers over networks call it; 0 until needed
	networks map[Transport]*registration // local: the networks that it is registered with
	mappings map[device.Device]*share.Mapping
}

// origin is the description of a remote memory.
type origin struct {
	host, process ipc.ID
	share         *share.Descriptor    // nil unless shared by IPC
	name          uint64               // what links call it
	keys          map[Transport][]byte // by the networks that it is registered with
	offset        int64                // offset in the share and in the registered memory
	local         *RegisteredMemory
}

// live holds the local memories of this process, so that a memory deserialised in its own process is used directly.
var live = struct {
	sync.Mutex
	next atomic.Uint64
	mem  map[uint64]*RegisteredMemory
}{mem: map[uint64]*RegisteredMemory{}}

// RegisterMemory makes size bytes at p of dev usable by the transports in flags. The caller keeps the memory and must
// close the registration before freeing it.
func (c *Context) RegisterMemory(dev device.Device, p device.Ptr, size int64, flags TransportFlags) (*RegisteredMemory,
	error) {
	const op = "register memory"
	if err := c.usable(op); err != nil {
		return nil, err
	}
	switch {
	case dev == nil:
		return nil, invalid(op, "no device")
	case p == 0 || size <= 0:
		return nil, invalid(op, "%d bytes at %#x is no memory", size, uintptr(p))
	case flags.None():
		return nil, invalid(op, "no transport: use Flags(IPC) or Flags(IPC, Ethernet)")
	}
	m := c.newLocal(dev, p, size, flags, false, false)
	if err := c.own(m); err != nil {
		return nil, errors.Join(c.wrap(err, op, NoRank), m.Close())
	}
	return m, nil
}

// newLocal makes a local memory that the Context does not own.
func (c *Context) newLocal(dev device.Device, p device.Ptr, size int64, flags TransportFlags, token,
	mapped bool) *RegisteredMemory {
	m := &RegisteredMemory{ctx: c, owner: dev.ID(), ptr: p, size: size, flags: flags, dev: dev, token: token,
		mapped: mapped, id: live.next.Add(1)}
	live.Lock()
	defer live.Unlock()
	live.mem[m.id] = m
	return m
}

// Size returns the size in bytes.
func (m *RegisteredMemory) Size() int64 { return m.size }

// Transports returns the transports that the memory is registered for.
func (m *RegisteredMemory) Transports() TransportFlags { return m.flags }

// Owner returns the id of the memory's device, in the owner's numbering.
func (m *RegisteredMemory) Owner() device.ID { return m.owner }

// Local reports whether a Context of this process registered the memory.
func (m *RegisteredMemory) Local() bool { return m.dev != nil }

// OriginalData returns the address at the owner.
func (m *RegisteredMemory) OriginalData() device.Ptr { return m.ptr }

// Data returns the address in this process: of local memory its address, of a peer's memory the mapped address, or 0 if
// it is not mapped (see Map).
func (m *RegisteredMemory) Data() device.Ptr {
	if m.dev != nil {
		return m.ptr
	}
	if m.origin.local != nil {
		return m.origin.local.ptr.Add(m.origin.offset)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.mappings {
		return p.Ptr.Add(m.origin.offset)
	}
	return 0
}

// Map makes the memory usable by kernels and copies of dev and returns its address there. It maps once; the mapping
// ends with Close.
func (m *RegisteredMemory) Map(ctx context.Context, dev device.Device) (device.Ptr, error) {
	const op = "map memory"
	if dev == nil {
		return 0, invalid(op, "no device")
	}
	ctx, cancel := m.ctx.bounded(ctx)
	defer cancel()
	p, err := m.mapOn(ctx, dev)
	return p, m.ctx.wrap(err, op, NoRank)
}

// mapOn returns the address of the memory on a device. A peer's memory that is in this process is mapped too, so that
// it stays mapped until m is closed, as a mapping in another process would: a proxy here may be about to wake a waiter
// that has already seen the signal and closed its memory.
func (m *RegisteredMemory) mapOn(ctx context.Context, dev device.Device) (device.Ptr, error) {
	l, offset := m, int64(0) // the memory as its owner knows it, if it is in this process
	if o := m.origin; o != nil {
		l, offset = o.local, o.offset
	}
	host := l != nil && reachable(l.dev) && reachable(dev)
	switch {
	case l == m && (dev == m.dev || m.mapped || host), l != nil && !host && (dev == l.dev || l.mapped):
		return m.ptr, nil
	case l != nil && dev.ID().Kind != l.owner.Kind:
		return 0, fmt.Errorf("%w: %s cannot map memory of %s: use ethernet between kinds of device", ErrUnsupported,
			dev.ID(), l.owner)
	case l == nil && m.origin.share == nil:
		return 0, fmt.Errorf("%w: the peer registered it for %v, not for ipc", ErrInvalid, m.flags)
	case l == nil && m.origin.host != ipc.HostID():
		return 0, fmt.Errorf("%w: it is on another host, or in another network namespace: use an ethernet connection, "+
			"or give containers of one machine one network namespace", ErrInvalid)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, ErrClosed
	}
	if p := m.mappings[dev]; p != nil {
		return p.Ptr.Add(offset), nil
	}
	var p *share.Mapping
	var err error
	if l != nil {
		if p, err = share.Here(dev, l.dev, l.ptr); host && errors.Is(err, device.ErrNotShareable) {
			return m.ptr, nil // no device knows this memory, so its owner must keep it
		}
	} else {
		ctx, cancel := m.ctx.bounded(ctx)
		defer cancel()
		p, err = share.Map(ctx, dev, m.origin.share)
	}
	if err != nil {
		return 0, err
	}
	if m.mappings == nil {
		m.mappings = map[device.Device]*share.Mapping{}
	}
	m.mappings[dev] = p
	return p.Ptr.Add(offset), nil
}

// remote returns the location of the memory as the connection's link addresses it.
func (m *RegisteredMemory) remote(ctx context.Context, conn *Connection) (transport.Remote, error) {
	if t := conn.remote.transport; !m.flags.Has(t) {
		return transport.Remote{}, fmt.Errorf("%w: the memory is registered for %v, the connection is %v", ErrInvalid,
			m.flags, t)
	}
	if conn.Transport() == IPC {
		p, err := m.mapOn(ctx, conn.local.dev)
		return transport.Remote{Ptr: p}, err
	}
	return m.place(conn)
}

// inBounds reports whether the range lies in the memory.
func (m *RegisteredMemory) inBounds(off, n uint64) bool {
	return n <= uint64(m.size) && off <= uint64(m.size)-n
}

// Close ends the registration, or unmaps a peer's memory. The memory must not be in use.
func (m *RegisteredMemory) Close() error {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	m.closed = true
	revoke, mappings, networks, name := m.revoke, m.mappings, m.networks, m.name
	m.revoke, m.mappings, m.networks = nil, nil, nil
	m.mu.Unlock()
	m.ctx.disown(m)
	if m.dev != nil {
		live.Lock()
		delete(live.mem, m.id)
		live.Unlock()
	}
	if revoke != nil {
		revoke()
	}
	var errs []error
	for _, r := range networks {
		errs = append(errs, r.close(name))
	}
	return errors.Join(append(errs, device.CloseAll(slices.Collect(maps.Values(mappings))...))...)
}
