package share

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fdshare"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/transport/ipc"
)

// cache holds the mappings of this process. mu guards it and the counts of its entries.
var cache = struct {
	mu      sync.Mutex
	entries map[key]*entry
}{entries: map[key]*entry{}}

// key identifies an allocation and the device that maps it.
type key struct {
	process ipc.ID
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
	idle  int  // users that rest: suspend.go
	gone  bool // unmapped until a user wakes
}

// Mapping is mapped memory. Ptr is the address here of the address that was exported.
type Mapping struct {
	Ptr     device.Ptr
	key     key
	e       *entry
	resting bool // guarded by cache.mu
	once    sync.Once
	err     error
}

// Map maps what d describes on dev. If the allocation is mapped already, the mapping gets one more user.
func Map(ctx context.Context, dev device.Device, d *Descriptor) (*Mapping, error) {
	if err := d.mappable(dev); err != nil {
		return nil, err
	}
	return mapHost(ctx, dev, d)
}

// mapHost is Map without the rule that owner and user are devices of one kind: a GPU maps and page-locks memory of the
// host.
func mapHost(ctx context.Context, dev device.Device, d *Descriptor) (*Mapping, error) {
	h := &d.Handle
	k := key{d.Process, h.Owner, h.Unique, h.Base, dev}
	m, err := acquire(ctx, k, h.Offset, func() (device.Allocation, error) { return load(ctx, dev, d) })
	if err != nil {
		return nil, fmt.Errorf("share: map memory of %s on %s: %w", h.Owner, dev.ID(), err)
	}
	return m, nil
}

// Here makes memory of one device of this process usable by another, at the same address, and keeps it mapped.
func Here(dev, owner device.Device, p device.Ptr) (*Mapping, error) {
	h, err := owner.Export(p)
	if err != nil {
		return nil, err
	}
	if h.Type == device.HandleFD {
		defer func() { _ = unix.Close(h.FD) }()
	}
	k := key{ipc.ProcessID, h.Owner, h.Unique, h.Base, dev}
	m, err := acquire(context.Background(), k, h.Offset, func() (device.Allocation, error) { return dev.Import(h) })
	if err == nil && m.Ptr != p {
		return nil, errors.Join(fmt.Errorf("share: %w: %s maps %#x of %s at %#x", device.ErrUnsupported, dev.ID(),
			uintptr(p), owner.ID(), uintptr(m.Ptr)), m.Close())
	}
	return m, err
}

// acquire returns a mapping of the allocation k, which it loads unless it is in the cache.
func acquire(ctx context.Context, k key, offset int64, load func() (device.Allocation, error)) (*Mapping, error) {
	for {
		e, first := enter(k)
		if first {
			e.alloc, e.err = load()
			close(e.ready)
		}
		select {
		case <-e.ready:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), leave(k, e))
		}
		if e.err == nil {
			return &Mapping{Ptr: e.alloc.Ptr().Add(offset), key: k, e: e}, nil
		}
		_ = leave(k, e)
		if first { // else another caller failed, perhaps only because its own context ended
			return nil, e.err
		}
	}
}

// enter takes a reference to the entry of k. first is true for the caller that must load it.
func enter(k key) (e *entry, first bool) {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if e = cache.entries[k]; e == nil {
		e, first = &entry{ready: make(chan struct{})}, true
		cache.entries[k] = e
	}
	e.refs++
	return e, first
}

// leave drops a reference; the last one unmaps. A failed entry leaves the cache with its first user.
func leave(k key, e *entry) error {
	cache.mu.Lock()
	e.refs--
	last := e.refs == 0
	select {
	case <-e.ready:
		last = last || e.err != nil
	default:
	}
	if last && cache.entries[k] == e {
		delete(cache.entries, k)
	}
	cache.mu.Unlock()
	if !last {
		return nil
	}
	<-e.ready
	if e.alloc == nil {
		return nil
	}
	return e.alloc.Close()
}

// load imports an allocation.
func load(ctx context.Context, dev device.Device, d *Descriptor) (device.Allocation, error) {
	h, done, err := fetch(ctx, d)
	if err != nil {
		return nil, err
	}
	defer done()
	a, err := dev.Import(h)
	if err == nil && a.Size() < h.Size {
		_ = a.Close()
		return nil, fmt.Errorf("the allocation has %d bytes, its handle says %d", a.Size(), h.Size)
	}
	return a, err
}

// fetch returns the handle with its file descriptor, if it has one, which done closes. Without a deadline in ctx, the
// set-up timeout applies, because a stopped process never answers.
func fetch(ctx context.Context, d *Descriptor) (h device.Handle, done func(), err error) {
	h = d.Handle
	if h.Type != device.HandleFD {
		return h, func() {}, nil
	}
	t, err := fdshare.ParseTicket(d.Ticket)
	if err != nil {
		return h, nil, err
	}
	if _, bounded := ctx.Deadline(); !bounded {
		env, err := setting.Read("GOCCL_TIMEOUT")
		if err != nil {
			return h, nil, err
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, env.TimeoutOr(30*time.Second))
		defer cancel()
	}
	if h.FD, err = fdshare.Fetch(ctx, t); err != nil {
		return h, nil, err
	}
	return h, func() { _ = unix.Close(h.FD) }, nil
}

// Close ends this use of the mapping.
func (m *Mapping) Close() error {
	m.once.Do(func() {
		cache.mu.Lock()
		if m.resting {
			m.e.idle--
		}
		cache.mu.Unlock()
		m.err = leave(m.key, m.e)
	})
	return m.err
}

// Mapped returns the number of allocations that are mapped.
func Mapped() int {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	return len(cache.entries)
}
