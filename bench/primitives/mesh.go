package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/bench/internal/ranks"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/primitive"
)

// The window is each rank's small memory that all others map: packets at its start, then the flags of the bulk
// all-to-all.
const (
	windowBytes = 1 << 20
	flagsOffset = windowBytes / 2
)

// mesh is a rank's channels to all others.
type mesh struct {
	ctx     *primitive.Context
	comm    *primitive.Communicator
	service *primitive.ProxyService
	dev     device.Device
	me      int
	window  *primitive.RegisteredMemory
	local   *primitive.RegisteredMemory // as large as the window, and not shared
	peers   []peer                      // by rank; the own entry is empty
}

// peer holds the connection to another rank.
type peer struct {
	conn   *primitive.Connection
	window *primitive.RegisteredMemory // the peer's
	sema   *primitive.Semaphore
	port   primitive.SemaphoreID
	small  ends // from local to the peer's window
	large  ends // from the source to the peer's target; set by large
}

// ends are the channels over one pair of memories.
type ends struct {
	memory primitive.MemoryChannelHandle
	port   primitive.PortChannelHandle
}

// spinLimit bounds a wait in a kernel.
const spinLimit = 20 * time.Second

// newMesh connects this rank with all others. It starts each step with every peer before it waits.
func newMesh(ctx context.Context, r *rank) (m *mesh, err error) {
	n := r.WorldSize()
	m = &mesh{ctx: primitive.NewContext(primitive.WithTimeout(ranks.Wait), primitive.WithSpinLimit(spinLimit)), dev: r.dev,
		me: r.Rank(), peers: make([]peer, n)}
	m.comm = primitive.NewCommunicator(r.Bootstrap, m.ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, m.close())
		}
	}()
	if m.service, err = primitive.NewProxyService(m.ctx, m.dev, primitive.ProxyOptions{}); err != nil {
		return nil, err
	}
	if m.window, err = m.memory(windowBytes); err != nil {
		return nil, err
	}
	if m.local, err = m.memory(windowBytes); err != nil {
		return nil, err
	}
	// 1. Connections, and the windows.
	conns := make([]*primitive.Future[*primitive.Connection], n)
	for p := range m.others() {
		conns[p] = m.comm.Connect(primitive.EndpointConfig{Transport: primitive.IPC, Device: m.dev}, p, 0)
	}
	windows := m.share(m.window)
	// 2. Two semaphores with each: one for memory channels, one for the proxy.
	semas := make([]*primitive.Future[*primitive.Semaphore], n)
	for p := range m.others() {
		e := &m.peers[p]
		if e.conn, err = conns[p].Get(ctx); err != nil {
			return nil, err
		}
		semas[p] = m.comm.BuildSemaphore(e.conn, p, 0)
		if e.port, err = m.service.BuildAndAddSemaphore(m.comm, e.conn); err != nil {
			return nil, err
		}
	}
	// 3. The channels.
	for p := range m.others() {
		e := &m.peers[p]
		if e.sema, err = semas[p].Get(ctx); err != nil {
			return nil, err
		}
		if e.window, err = windows[p].Get(ctx); err != nil {
			return nil, err
		}
		if e.small, err = m.channels(e, e.window, m.local, m.window); err != nil {
			return nil, err
		}
	}
	return m, m.service.Start()
}

// others yields the ranks of the peers, the next one first.
func (m *mesh) others() func(yield func(int) bool) {
	n := len(m.peers)
	return func(yield func(int) bool) {
		for k := 1; k < n; k++ {
			if !yield((m.me + k) % n) {
				return
			}
		}
	}
}

// memory allocates and registers memory; the device frees it.
func (m *mesh) memory(bytes int64) (*primitive.RegisteredMemory, error) {
	a, err := m.dev.Alloc(bytes)
	if err != nil {
		return nil, err
	}
	return m.ctx.RegisterMemory(m.dev, a.Ptr(), bytes, primitive.Flags(primitive.IPC))
}

// share sends local memory to all peers and receives theirs.
func (m *mesh) share(local *primitive.RegisteredMemory) []*primitive.Future[*primitive.RegisteredMemory] {
	got := make([]*primitive.Future[*primitive.RegisteredMemory], len(m.peers))
	for p := range m.others() {
		m.comm.SendMemory(local, p, 0)
		got[p] = m.comm.RecvMemory(p, 0)
	}
	return got
}

func (m *mesh) channels(e *peer, dst, src, packets *primitive.RegisteredMemory) (both ends, err error) {
	memory, err := primitive.NewMemoryChannel(e.sema, dst, src, packets)
	if err != nil {
		return both, err
	}
	to, err := m.service.AddMemory(dst)
	if err != nil {
		return both, err
	}
	from, err := m.service.AddMemory(src)
	if err != nil {
		return both, err
	}
	port, err := m.service.PortChannel(e.port, to, from)
	if err != nil {
		return both, err
	}
	return ends{memory.DeviceHandle(), port.DeviceHandle()}, nil
}

// large makes the channels of the large transfers, over a source and a target of each rank.
func (m *mesh) large(ctx context.Context, bytes int64) (source, target *primitive.RegisteredMemory, err error) {
	if source, err = m.memory(bytes); err != nil {
		return nil, nil, fmt.Errorf("%d bytes as source: %w", bytes, err)
	}
	if target, err = m.memory(bytes); err != nil {
		return nil, nil, fmt.Errorf("%d bytes as target: %w", bytes, err)
	}
	targets := m.share(target)
	for p := range m.others() {
		theirs, err := targets[p].Get(ctx)
		if err != nil {
			return nil, nil, err
		}
		if m.peers[p].large, err = m.channels(&m.peers[p], theirs, source, nil); err != nil {
			return nil, nil, err
		}
	}
	return source, target, nil
}

func (m *mesh) close() error {
	var errs []error
	if m.service != nil {
		errs = append(errs, m.service.Close())
	}
	return errors.Join(append(errs, m.comm.Close(), m.ctx.Close())...)
}
