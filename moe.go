package goccl

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/engine/moe"
)

// MoE moves the tokens of a mixture of experts among the ranks of a communicator: see package engine/moe. Its
// operations are collective, have numbers among the communicator's collectives and run in the order of the calls. A nil
// stream is the device's default one.
type MoE struct {
	c *Comm
	b *moe.Buffer

	mu      sync.Mutex // guards the fields below
	stopped error      // the rank has aborted, revoked or closed the communicator
	stop    func()     // ends a SetMask; nil: none runs
}

// NewMoE makes the memory for dispatches and combines. It is collective: all ranks give the same size.
func (c *Comm) NewMoE(ctx context.Context, size moe.Size) (*MoE, error) {
	m := &MoE{c: c}
	err := c.bounded(ctx, "moe", func(ctx context.Context) (err error) {
		if m.b, err = moe.New(ctx, moe.Config{Job: c.job(c.status.End), Order: c.order, Size: size}); err != nil {
			return err
		}
		c.own(m)
		c.status.OnEnd(m.b.JobEnded)
		c.detached.Store(m, nil)
		c.status.AlsoAsk(m.failed)
		c.extended.Store(true)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// failed is the first failure of an operation, or nil, also after Close.
func (m *MoE) failed() error {
	err := m.b.Err()
	if errors.Is(err, ErrClosed) {
		return nil
	}
	return err
}

// Notify tells the ranks which tokens go where.
func (m *MoE) Notify(a moe.NotifyArgs) error { return m.run(m.b.Notify(a)) }

// Dispatch sends the tokens to the ranks of their experts.
func (m *MoE) Dispatch(a moe.DispatchArgs) error { return m.run(m.b.Dispatch(a)) }

// Combine returns the experts' results and adds them.
func (m *MoE) Combine(a moe.CombineArgs) error { return m.run(m.b.Combine(a)) }

func (m *MoE) run(op collective.Operation) error {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	return m.c.runLocked(op, m.b.Detached())
}

// SetMask changes the mask, as moe.Buffer.SetMask describes. From then on the operations do not end with the
// communicator: they go on when a masked rank dies, and also if the communicator has ended because of it before. Abort,
// Revoke and Close of this rank's communicator still end them. It is bounded by Config.Timeout.
func (m *MoE) SetMask(ctx context.Context, mask moe.Mask) error {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, c.cfg.Timeout)
	defer stop()
	m.mu.Lock()
	m.stop = stop
	stopped := m.stopped
	m.mu.Unlock()
	err := cmp.Or(c.open("moe_mask"), stopped)
	if err == nil {
		err = m.b.SetMask(ctx, mask)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop = nil; m.stopped != nil {
		m.b.Abort(m.stopped)
		return cmp.Or(err, m.stopped)
	}
	return err
}

// Err returns the failure that has ended the operations, or nil. Once a stream has ended, it knows of every failed
// operation in it.
func (m *MoE) Err() error { return m.b.Err() }

// end ends the operations for good.
func (m *MoE) end(cause error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stopped = cmp.Or(m.stopped, cause); m.stop != nil {
		m.stop()
	}
	if first := m.c.status.Err(); first != nil { // of which JobEnded may not have been told yet
		m.b.JobEnded(first)
	}
	m.b.Abort(cause)
}

// Count counts the tokens of this rank by rank and by expert. It is local.
func (m *MoE) Count(a moe.CountArgs) error {
	const op = "moe_count"
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	detached := m.b.Detached()
	if err := c.begin(op, &a.Stream, detached); err != nil {
		return err
	}
	if err := c.follow(a.Stream, detached); err != nil {
		return c.wrap(op, err)
	}
	return m.b.Count(&a)
}

// HandleBytes is the size of a handle.
func (m *MoE) HandleBytes(s moe.Shape) (int64, error) { return m.b.HandleBytes(s) }

// Offsets are the places of what a caller may read in a handle.
func (m *MoE) Offsets(s moe.Shape) moe.HandleOffsets { return m.b.Offsets(s) }

// Close frees the memory. The work must have ended or the communicator have been aborted. Closing the communicator
// closes it too.
func (m *MoE) Close() error { return m.c.disown(m) }

func (m *MoE) close() error {
	m.c.detached.Delete(m)
	if m.c.closed.Load() { // and with it the engine, whose order the operations have
		return m.b.Free()
	}
	return m.b.Close()
}
