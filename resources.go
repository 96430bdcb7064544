package goccl

import (
	"errors"
	"slices"
)

// resource is an object of the caller's that uses the engine of a communicator, such as a Fusion or a MoE. Its close is
// called once, with Comm.mu held.
type resource interface{ close() error }

// own makes Close close r. The caller holds mu.
func (c *Comm) own(r resource) { c.resources = append(c.resources, r) }

// disown closes r, unless it is closed already.
func (c *Comm) disown(r resource) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.resources, r)
	if i < 0 {
		return nil
	}
	c.resources = slices.Delete(c.resources, i, i+1)
	return r.close()
}

// closeResources closes all. The caller holds mu.
func (c *Comm) closeResources() (err error) {
	for _, r := range c.resources {
		err = errors.Join(err, r.close())
	}
	c.resources = nil
	return err
}
