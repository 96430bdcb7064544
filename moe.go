package goccl

import (
	"context"
	"errors"

	"github.com/goccl/goccl/engine/moe"
)

// MoE moves the tokens of a mixture of experts among the ranks of a communicator: see package engine/moe. Its
// operations are collective, have numbers among the communicator's collectives and run in the order of the calls. A nil
// stream is the device's default one.
type MoE struct {
	c *Comm
	b *moe.Buffer
}

// NewMoE makes the memory for dispatches and combines. It is collective: all ranks give the same size.
func (c *Comm) NewMoE(ctx context.Context, size moe.Size) (*MoE, error) {
	m := &MoE{c: c}
	err := c.bounded(ctx, "moe", func(ctx context.Context) (err error) {
		if m.b, err = moe.New(ctx, moe.Config{Job: c.job(c.status.End), Order: c.order, Size: size}); err != nil {
			return err
		}
		c.own(m)
		c.status.OnEnd(m.b.Abort)
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
func (m *MoE) Notify(a moe.NotifyArgs) error { return m.c.run(m.b.Notify(a)) }

// Dispatch sends the tokens to the ranks of their experts.
func (m *MoE) Dispatch(a moe.DispatchArgs) error { return m.c.run(m.b.Dispatch(a)) }

// Combine returns the experts' results and adds them.
func (m *MoE) Combine(a moe.CombineArgs) error { return m.c.run(m.b.Combine(a)) }

// Count counts the tokens of this rank by rank and by expert. It is local.
func (m *MoE) Count(a moe.CountArgs) error {
	const op = "moe_count"
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin(op, &a.Stream); err != nil {
		return err
	}
	if err := c.engine.Follow(a.Stream); err != nil {
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
	if m.c.closed.Load() { // and with it the engine, whose order the operations have
		return m.b.Free()
	}
	return m.b.Close()
}
