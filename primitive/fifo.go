package primitive

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/abort"
	"github.com/goccl/goccl/internal/wait"
)

// Fifo is a ring of triggers in memory that kernels write and the host polls. Any number of kernel threads push; one
// host goroutine polls and pops.
//
// Host memory holds, for the host and the kernels of every device:
//
//	0     the tail, a cell: positions that the host has consumed
//	64    the doorbell, a cell on which an idle host sleeps; kernels of the host device ring it
//	4096  the ring
//
// The head and a cached tail lie in a token of device memory, so that a push reads nothing over PCIe as long as there
// is room.
type Fifo struct {
	mem   device.Allocation
	state *token
	size  uint32
	next  uint64 // the consumer's position
	abort device.Ptr
}

const (
	fifoDoorbell = 64
	fifoRing     = 4096
	// DefaultFifoSize is the default number of slots, by which kernels can be ahead of the host.
	DefaultFifoSize = 512
	maxFifoSize     = 1 << 20
)

// NewFifo makes a Fifo of at least size triggers (0: DefaultFifoSize) for kernels of dev; the number is rounded up to a
// power of two.
func NewFifo(c *Context, dev device.Device, size int) (*Fifo, error) {
	const op = "fifo"
	size = cmp.Or(size, DefaultFifoSize)
	if dev == nil || size < 1 || size > maxFifoSize {
		return nil, invalid(op, "%d triggers: choose 1 to %d, and a device", size, maxFifoSize)
	}
	n := uint32(1) << bits.Len32(uint32(size)-1)
	abort, err := c.AbortBlock(dev)
	if err != nil {
		return nil, err
	}
	pool, err := c.tokenPool(dev, false)
	if err != nil {
		return nil, c.wrap(err, op, NoRank)
	}
	mem, err := allocMapped(dev, fifoRing+int64(n)*TriggerSize)
	if err != nil {
		return nil, c.wrap(err, op, NoRank)
	}
	state, err := pool.get(c)
	if err != nil {
		return nil, errors.Join(c.wrap(err, op, NoRank), mem.Close())
	}
	return &Fifo{mem: mem, state: state, size: n, abort: abort}, nil
}

// Size returns the number of slots.
func (f *Fifo) Size() int { return int(f.size) }

// DeviceHandle returns the handle for kernels.
func (f *Fifo) DeviceHandle() FifoHandle {
	return FifoHandle{Ring: f.mem.Ptr().Add(fifoRing), Head: f.state.inbound(), Tail: f.mem.Ptr(),
		TailCache: f.state.expected(), Size: f.size, Abort: f.abort}
}

func (f *Fifo) doorbell() *wait.Cell { return cellAt(f.mem.Ptr().Add(fifoDoorbell)) }

// ready reports whether the next trigger is complete.
func (f *Fifo) ready() bool {
	slot := f.mem.Ptr().Add(fifoRing + int64(f.next&uint64(f.size-1))*TriggerSize)
	return uint32(word64(slot.Add(24)).Load()>>32) == fifoLap(f.next, f.size)
}

// Poll returns the next trigger and its position, if it is complete. The trigger stays in its slot until Pop.
func (f *Fifo) Poll() (t Trigger, position uint64, ok bool) {
	// The lap is read with acquire, so the words written before it are visible.
	slot := f.mem.Ptr().Add(fifoRing + int64(f.next&uint64(f.size-1))*TriggerSize)
	w3 := word64(slot.Add(24)).Load()
	if uint32(w3>>32) != fifoLap(f.next, f.size) {
		return Trigger{}, 0, false
	}
	w := (*[3]uint64)(pointer(slot))
	return decodeTrigger(w[0], w[1], w[2], w3), f.next, true
}

// Pop frees the slot of the trigger that Poll returned.
func (f *Fifo) Pop() {
	f.next++
	cellAt(f.mem.Ptr()).Store(f.next)
}

// Tail returns the number of consumed triggers.
func (f *Fifo) Tail() uint64 { return cellAt(f.mem.Ptr()).Load() }

// Close frees the memory; no kernel may push after that.
func (f *Fifo) Close() error {
	f.state.pool.put(f.state)
	return f.mem.Close()
}

// The Go twin of goccl::FifoHandle, for host kernels.

// Push appends t and returns its position, for Sync and flushes. It waits while the ring is full. StatusInvalid means
// that t does not fit the encoding; nothing was pushed. After any other status except StatusOK the position is lost and
// the Fifo is unusable: its service must be made anew.
//
//  1. Take a position.
//  2. Wait until its slot is consumed. If the cached tail shows room, no wait is needed.
//  3. Write three words, then the fourth, with the lap, as a release.
//  4. Ring the doorbell: one load unless the host sleeps.
func (h *FifoHandle) Push(t Trigger) (position uint64, s Status) {
	if !t.valid() {
		return 0, StatusInvalid
	}
	pos := word64(h.Head).Add(1) - 1
	size := uint64(h.Size)
	if pos-word64(h.TailCache).Load() >= size {
		tail := cellAt(h.Tail)
		var seen uint64
		if s := waitCell(tail, func() bool { seen = tail.Load(); return pos-seen < size }, h.Abort, h.Tail,
			abort.WaitFifoSlot); s != StatusOK {
			return pos, s
		}
		word64(h.TailCache).Store(seen)
	}
	slot := h.Ring.Add(int64(pos&(size-1)) * TriggerSize)
	w0, w1, w2, sem := t.encode()
	w := (*[3]uint64)(pointer(slot))
	w[0], w[1], w[2] = w0, w1, w2
	word64(slot.Add(24)).Store(sem | uint64(fifoLap(pos, h.Size))<<32)
	cellAt(h.Tail.Add(fifoDoorbell)).Wake()
	return pos, StatusOK
}

// Poll reports whether the host has consumed position.
func (h *FifoHandle) Poll(position uint64) bool { return cellAt(h.Tail).Reached(position + 1) }

// Sync waits until the host has consumed position.
func (h *FifoHandle) Sync(position uint64) Status {
	tail := cellAt(h.Tail)
	return waitCell(tail, func() bool { return tail.Reached(position + 1) }, h.Abort, h.Tail, abort.WaitFifoSlot)
}

// String formats f for logs.
func (f *Fifo) String() string { return fmt.Sprintf("fifo of %d triggers at %d", f.size, f.next) }
