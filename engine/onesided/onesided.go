// Package onesided puts data into flat windows of peers and signals them, and waits for signals, on both devices.
//
// A signal adds one to a counter at the receiver. There is one counter for each sender and slot; the counters lie in a
// separate flat window. A wait uses signals up: the next wait for the counter awaits later ones. The
// operations are in the order of their stream and in no other: a wait on one stream never keeps a put on another stream
// back, because a peer may need that put before it signals.
package onesided

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/share"
)

// Slots is the number of counters for each sender.
const Slots = 256

// Target is a counter at a peer.
type Target struct{ Peer, Slot int }

// Wait awaits Count signals of a peer.
type Wait struct {
	Target
	Count int
}

// Signals is one rank's half. Any goroutine may enqueue. The caller checks peers, slots and counts.
type Signals interface {
	// Put copies size bytes from src to dst in a peer's part of a flat window, and then signals the peer.
	Put(s device.Stream, dst, src device.Ptr, size int64, t Target) error
	// Wait makes later work on s wait.
	Wait(s device.Stream, waits []Wait) error
	// Drain waits until the operations so far have ended, apart from those in graphs.
	Drain(ctx context.Context) error
	// Close frees the counters. No operation runs any more.
	Close() error
}

// Config is for New.
type Config struct {
	Device  device.Device
	Windows *share.Windows
	// Rank of Size is this rank.
	Rank, Size int
	// Ended returns the error of a communicator that has ended, else nil.
	Ended func() error
	// Left returns the error of a wait for a peer that has left, else nil. On the host device only.
	Left func(peer int) error
	// Late returns the error of a wait that has lasted for elapsed, in which came signals have come, or nil while the
	// deadline of an operation has not passed. On the host device only.
	Late func(w Wait, elapsed time.Duration, came uint64) error
	// AbortBlock is what waiting kernels poll (kernels/include/goccl/abort.cuh). On GPUs only.
	AbortBlock device.Ptr
	// Atomics: atomic additions of this GPU reach the memory of all peers.
	Atomics bool
	// Beside: the copy engine and kernels of this GPU copy at the same time, at most one rank on each GPU.
	Beside bool
}

// counters are the words of all ranks.
type counters struct {
	rank   int
	own    device.Allocation
	window *share.Window
}

// newCounters allocates and registers this rank's words, one for each counter. extra bytes follow the words and belong
// to this rank alone. All are zero, like any new allocation.
func newCounters(cfg *Config, extra int64) (*counters, error) {
	bytes := int64(cfg.Size) * Slots * 8
	own, err := cfg.Device.Alloc(bytes + extra)
	if err != nil {
		return nil, err
	}
	w, err := cfg.Windows.Register(own.Ptr(), bytes)
	if err != nil {
		return nil, errors.Join(err, own.Close())
	}
	return &counters{cfg.Rank, own, w}, nil
}

// await waits until all ranks have registered their words.
func (c *counters) await() error {
	usable, err := c.window.Await()
	if err == nil && !usable {
		err = fmt.Errorf("%w: %w", collective.ErrUnsupported, c.window.Reason())
	}
	return err
}

// word is the counter of rank `at` for signals of rank `from`.
func (c *counters) word(at, from, slot int) device.Ptr {
	p := c.window.Parts()
	return p.Base.Add(int64(at)*p.Stride + int64(from*Slots+slot)*8)
}

// toPeer is a counter that this rank raises.
func (c *counters) toPeer(t Target) device.Ptr { return c.word(t.Peer, c.rank, t.Slot) }

// fromPeer is a counter of this rank.
func (c *counters) fromPeer(t Target) device.Ptr { return c.word(c.rank, t.Peer, t.Slot) }
