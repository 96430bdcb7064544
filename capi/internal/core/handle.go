package core

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
)

// Handle names an object to C: 16 bits of kind, 32 bits of generation, 16 bits of index in a table. A freed handle is
// not reused until its index was freed 2³² times, so stale and invalid handles are detected. As a pointer a handle is
// non-canonical: a program that dereferences it faults at once.
type Handle uint64

// The kinds. The top bit is clear, so that a handle is positive also as a signed integer.
const (
	kindComm      = 0x0cc1
	kindDevice    = 0x0cd1
	kindBootstrap = 0x0cb1
)

const maxHandles = 1 << 14

// index is within the bounds of any table, also for an invalid h.
func (h Handle) index() int { return int(h & (maxHandles - 1)) }

// table holds the live objects of one kind. get takes no lock.
type table[T any] struct {
	kind Handle
	name string

	slots [maxHandles]atomic.Pointer[entry[T]]

	mu   sync.Mutex
	used int                // slots[used:] were never used
	free []int              // used before
	gen  [maxHandles]uint32 // of the latest entry
}

type entry[T any] struct {
	handle Handle
	value  T
}

// add stores the object that build returns for its handle.
func (t *table[T]) add(build func(Handle) T) (Handle, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var i int
	switch n := len(t.free); {
	case n > 0:
		i = t.free[n-1]
		t.free = t.free[:n-1]
	case t.used < maxHandles:
		i = t.used
		t.used++
	default:
		return 0, fmt.Errorf("%w: this process has %d %ss, which is the most it may have", ErrInvalidUsage, maxHandles,
			t.name)
	}
	t.gen[i]++
	h := t.kind<<48 | Handle(t.gen[i])<<16 | Handle(i)
	t.slots[i].Store(&entry[T]{h, build(h)})
	return h, nil
}

// get finds the object of h.
func (t *table[T]) get(h Handle) (T, error) {
	if h>>48 == t.kind {
		if e := t.slots[h.index()].Load(); e != nil && e.handle == h {
			return e.value, nil
		}
	}
	var none T
	return none, t.bad(h)
}

//go:noinline
func (t *table[T]) bad(h Handle) error {
	if h>>48 == t.kind {
		return fmt.Errorf("%w: %s %#x was destroyed or aborted", ErrInvalidArgument, t.name, uint64(h))
	}
	return fmt.Errorf("%w: %#x is no %s (corrupted, or never initialised)", ErrInvalidArgument, uint64(h), t.name)
}

// remove frees the index of h and reports whether this call did.
func (t *table[T]) remove(h Handle) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.slots[h.index()].Load(); h>>48 != t.kind || e == nil || e.handle != h {
		return false
	}
	t.slots[h.index()].Store(nil)
	t.free = append(t.free, h.index())
	return true
}

// all lists the live objects.
func (t *table[T]) all() []T {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []T
	for i := range t.used {
		if e := t.slots[i].Load(); e != nil {
			out = append(out, e.value)
		}
	}
	return out
}

// owned is an object of a communicator. Its handle ends with the communicator, if not earlier.
type owned[T io.Closer] struct {
	handle Handle
	c      *comm
	inner  T
}

// ownedTable holds the live objects of one kind that communicators own.
type ownedTable[T io.Closer] struct{ table[*owned[T]] }

// grant makes v an object of c. If there is no handle for it, v is closed.
func (t *ownedTable[T]) grant(c *comm, v T) (Handle, error) {
	c.ownedMu.Lock()
	defer c.ownedMu.Unlock()
	h, err := t.add(func(h Handle) *owned[T] { return &owned[T]{h, c, v} })
	if err != nil {
		_ = v.Close()
		return 0, err
	}
	if c.owned == nil {
		c.owned = map[Handle]func(Handle) bool{}
	}
	c.owned[h] = t.remove
	return h, nil
}

// end closes an object. Closing it again, or after its communicator, is harmless.
func (t *ownedTable[T]) end(h Handle) error {
	o, err := t.get(h)
	if err != nil {
		if h>>48 == t.kind {
			return nil
		}
		return err
	}
	if !t.remove(h) {
		return nil
	}
	o.c.ownedMu.Lock()
	delete(o.c.owned, h)
	o.c.ownedMu.Unlock()
	return o.inner.Close()
}

// forgetOwned removes the handles of the objects of a communicator that is closed.
func (c *comm) forgetOwned() {
	c.ownedMu.Lock()
	defer c.ownedMu.Unlock()
	for h, remove := range c.owned {
		remove(h)
	}
	c.owned = nil
}
