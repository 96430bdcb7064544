package goccl

import (
	"fmt"
	"math"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/onesided"
)

// SignalID names a counter of signals from one rank to another.
type SignalID struct{ Context, Index int }

// SignalWait is how many signals a WaitSignal awaits from a peer. It uses them up: the next wait awaits later ones.
type SignalWait struct {
	Peer  int
	ID    SignalID
	Count int
}

// Contexts and indices of signals are from 0 to these.
const (
	signalContexts = 16
	signalIndices  = onesided.Slots / signalContexts
)

func (id SignalID) slot() int { return id.Context*signalIndices + id.Index }

// newSignals registers the counters as the first flat window. It returns nil if the ranks cannot have them: on GPUs of
// which one cannot address the memory of another.
func (c *Comm) newSignals() (onesided.Signals, error) {
	cfg := onesided.Config{Device: c.dev, Windows: c.flats, Rank: c.rank, Size: c.size}
	if c.dev.ID().Kind != device.Host {
		e, ok := c.engine.(reaching)
		if !ok || !e.Reaches() {
			return nil, nil
		}
		cfg.AbortBlock, cfg.Atomics = e.AbortBlock(), e.Atomics()
		cfg.Beside = cfg.Atomics && e.Overlaps()
		return onesided.NewGPU(cfg)
	}
	const op = "wait signal"
	cfg.Ended = func() error {
		if c.status.Err() == nil {
			return nil
		}
		return c.group.Ended(op, nil)
	}
	c.notices.Start()
	cfg.Left = func(peer int) error { return c.notices.Left(op, peer) }
	cfg.Late = func(w onesided.Wait, elapsed time.Duration, came uint64) error {
		limit := c.cfg.OpTimeout
		if limit <= 0 || elapsed <= limit {
			return nil
		}
		return &Error{Comm: c.cfg.Name, Op: op, Rank: c.rank, Peer: w.Peer, Err: fmt.Errorf("%w: %d of %d signals of rank "+
			"%d have come within %v", ErrTimeout, came, w.Count, w.Peer, limit)}
	}
	return onesided.NewHost(cfg)
}

// PutSignal copies size bytes at src into the part of rank peer of a flat window, at an offset, and then signals the
// peer, which takes no part until it waits. The window must have been awaited.
//
// One-sided operations are in the order of their stream. On GPUs they have no order with the communicator's other work
// on other streams, and the kernels of every rank must reach the memory of all ranks (Reaches).
func (c *Comm) PutSignal(w *FlatWindow, offset int64, src device.Ptr, size int64, peer int, id SignalID,
	s device.Stream) error {
	const op = "put signal"
	if w == nil || w.c != c || peer < 0 || peer >= c.size || offset < 0 || size < 0 || size > 0 && src == 0 ||
		offset > w.inner.Parts().Sizes[peer]-size {
		return c.errorf(op, ErrInvalidArgument, "%d bytes from %#x to offset %d of rank %d's part", size, src, offset, peer)
	}
	return c.oneSided(op, s, []SignalWait{{peer, id, 1}}, func(x onesided.Signals, s device.Stream) error {
		return x.Put(s, w.Base().Add(int64(peer)*w.Stride()+offset), src, size, onesided.Target{Peer: peer, Slot: id.slot()})
	})
}

// Signal signals a peer, after the work before it on s.
func (c *Comm) Signal(peer int, id SignalID, s device.Stream) error {
	return c.oneSided("signal", s, []SignalWait{{peer, id, 1}}, func(x onesided.Signals, s device.Stream) error {
		return x.Put(s, 0, 0, 0, onesided.Target{Peer: peer, Slot: id.slot()})
	})
}

// WaitSignal makes later work on s wait for signals. What the peers have put before is then visible. It ends with the
// communicator, and after Config.OpTimeout. At most one WaitSignal should wait for a counter at a time: two of
// different streams each take signals, in either order. A captured WaitSignal awaits later signals in each launch.
func (c *Comm) WaitSignal(waits []SignalWait, s device.Stream) error {
	return c.oneSided("wait signal", s, waits, func(x onesided.Signals, s device.Stream) error {
		list := make([]onesided.Wait, len(waits))
		for i, w := range waits {
			list[i] = onesided.Wait{Target: onesided.Target{Peer: w.Peer, Slot: w.ID.slot()}, Count: w.Count}
		}
		return x.Wait(s, list)
	})
}

// oneSided calls enqueue. On the host device the operation follows the engine's work, and later work of the engine
// follows it.
func (c *Comm) oneSided(op string, s device.Stream, peers []SignalWait,
	enqueue func(onesided.Signals, device.Stream) error) error {
	for _, p := range peers {
		if p.Peer < 0 || p.Peer >= c.size || p.Count < 1 || p.Count > math.MaxUint32 || p.ID.Context < 0 ||
			p.ID.Context >= signalContexts || p.ID.Index < 0 || p.ID.Index >= signalIndices {
			return c.errorf(op, ErrInvalidArgument, "%+v: %d ranks, %d contexts and %d signals in each", p, c.size,
				signalContexts, signalIndices)
		}
	}
	c.mu.Lock()
	err := c.begin(op, &s, false)
	x := c.signals
	switch {
	case err != nil:
	case c.flats == nil:
		err = c.errorf(op, ErrInvalidUsage, "register a window first")
	case x == nil:
		err = c.errorf(op, ErrUnsupported, "kernels of some rank cannot address the memory of all ranks")
	}
	if err == nil && c.dev.ID().Kind == device.Host {
		err = c.engine.Follow(s)
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	if err := enqueue(x, s); err != nil {
		return c.group.Ended(op, err)
	}
	return nil
}
