package goccl

import (
	"errors"
	"slices"
)

// dependent is an object of the caller's that the engine of a communicator works for, such as a Fusion or a MoE. Its
// close is called once, with Comm.mu held.
type dependent interface{ close() error }

// add registers an object that is closed with the communicator. The caller holds mu.
func (c *Comm) add(d dependent) { c.dependents = append(c.dependents, d) }

// drop closes an object, if it is still registered.
func (c *Comm) drop(d dependent) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.Index(c.dependents, d)
	if i < 0 {
		return nil
	}
	c.dependents = slices.Delete(c.dependents, i, i+1)
	return d.close()
}

// closeDependents closes all of them. The caller holds mu.
func (c *Comm) closeDependents() (err error) {
	for _, d := range c.dependents {
		err = errors.Join(err, d.close())
	}
	c.dependents = nil
	return err
}
