package core

import "io"

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
