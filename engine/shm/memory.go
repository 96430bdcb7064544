package shm

import "context"

// Suspend does nothing: pages of the host that are not used can be swapped.
func (e *Engine) Suspend(context.Context) error { return nil }

// Resume does nothing.
func (e *Engine) Resume(context.Context) error { return nil }

// Memory returns the bytes of this rank's arena.
func (e *Engine) Memory() (suspendable, persistent int64) { return 0, arenaBytes(e.size) }
