package ipc

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
)

// Importer maps shares. An allocation is imported once for each device and unmapped with its last Mapping.
type Importer struct {
	mu      sync.Mutex
	entries map[importKey]*entry
}

// importKey identifies an allocation and the device that maps it.
type importKey struct {
	process ID
	owner   device.ID
	unique  uint64
	base    device.Ptr
	dev     device.Device
}

type entry struct {
	ready chan struct{} // closed when alloc or err is set
	alloc device.Allocation
	err   error
	refs  int
}

// Mapping is a share mapped on a device. Ptr is the address of the exported pointer there.
type Mapping struct {
	Ptr  device.Ptr
	im   *Importer
	key  importKey
	e    *entry
	once sync.Once
	err  error
}

// Map maps s on dev. It fetches the descriptor from the exporter if this allocation is not mapped yet.
func (im *Importer) Map(ctx context.Context, dev device.Device, s *Share) (*Mapping, error) {
	h := s.Handle
	if h.Type == device.HandleLocal && s.Process != ProcessID {
		return nil, fmt.Errorf("ipc: map memory of another process's %s: %w: %w", h.Owner, device.ErrNotShareable, errElsewhere)
	}
	if h.Owner.Kind != dev.ID().Kind {
		return nil, fmt.Errorf("ipc: map memory of %s on %s: %w: use ethernet between kinds of device", h.Owner, dev.ID(), device.ErrUnsupported)
	}
	key := importKey{s.Process, h.Owner, h.Unique, h.Base, dev}
	im.mu.Lock()
	if im.entries == nil {
		im.entries = map[importKey]*entry{}
	}
	e := im.entries[key]
	if e == nil {
		e = &entry{ready: make(chan struct{})}
		im.entries[key] = e
		im.mu.Unlock()
		e.alloc, e.err = load(ctx, dev, s)
		im.mu.Lock()
		if e.err != nil {
			delete(im.entries, key)
		}
		close(e.ready)
	}
	e.refs++
	im.mu.Unlock()
	select {
	case <-e.ready:
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("ipc: map memory of %s: %w", h.Owner, ctx.Err()), im.release(key, e))
	}
	if e.err != nil {
		return nil, fmt.Errorf("ipc: map memory of %s on %s: %w", h.Owner, dev.ID(), e.err)
	}
	return &Mapping{Ptr: e.alloc.Ptr().Add(h.Offset), im: im, key: key, e: e}, nil
}

// load imports the allocation.
func load(ctx context.Context, dev device.Device, s *Share) (device.Allocation, error) {
	h := s.Handle
	if h.Type == device.HandleFD {
		fd, err := fetchFD(ctx, s.Ticket)
		if err != nil {
			return nil, err
		}
		defer func() { _ = unix.Close(fd) }()
		h.FD = fd
	}
	a, err := dev.Import(h)
	if err == nil && a.Size() < h.Size {
		_ = a.Close()
		return nil, fmt.Errorf("the allocation has %d bytes, its handle says %d", a.Size(), h.Size)
	}
	return a, err
}

// Close releases the mapping.
func (m *Mapping) Close() error {
	m.once.Do(func() {
		m.err = m.im.release(m.key, m.e)
	})
	return m.err
}

func (im *Importer) release(key importKey, e *entry) error {
	im.mu.Lock()
	e.refs--
	last := e.refs == 0 && im.entries[key] == e
	if last {
		delete(im.entries, key)
	}
	im.mu.Unlock()
	if !last {
		return nil
	}
	<-e.ready
	if e.alloc == nil {
		return nil
	}
	return e.alloc.Close()
}

// Len returns the number of mapped allocations.
func (im *Importer) Len() int {
	im.mu.Lock()
	defer im.mu.Unlock()
	return len(im.entries)
}
