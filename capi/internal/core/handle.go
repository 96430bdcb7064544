package core

import (
	"fmt"
	"sync"
	"sync/atomic"
)

// Handle names an object to C: 16 bits of kind, 32 bits of generation, 16 bits of place in a table. A handle that was freed is never given
// again (until 2³² others of its place were), so every stale or invented one is recognised. As a pointer it is non-canonical: a program that
// looks inside faults at once.
type Handle uint64

// The kinds. The top bit is clear, so that a handle is a positive number also where it is signed.
const (
	kindComm      = 0x0cc1
	kindDevice    = 0x0cd1
	kindBootstrap = 0x0cb1
)

const maxHandles = 1 << 14

// index is a place in any table, also when h was invented.
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

// add gives v, which make builds knowing its handle, a place.
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
		return 0, fmt.Errorf("%w: this process has %d %ss, which is the most it may have", ErrInvalidUsage, maxHandles, t.name)
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
		return fmt.Errorf("%w: %s %#x was destroyed", ErrInvalidArgument, t.name, uint64(h))
	}
	return fmt.Errorf("%w: %#x is no %s (corrupted, or never initialised)", ErrInvalidArgument, uint64(h), t.name)
}

// remove frees the place of h and reports whether this call did.
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
