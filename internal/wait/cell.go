package wait

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/goccl/goccl/internal/futex"
)

// CellSize is the size and the alignment of a Cell: one cache line, so that two cells never share one.
const CellSize = 64

// Cell is a 64-bit counter in shared memory with the state of its waiters, in one cache line. The value comes first, so
// the address of a Cell is also the address of a plain 64-bit counter. The zero Cell is ready for use.
type Cell struct {
	value    atomic.Uint64
	_        uint64        // 0: kernels that wait for a semaphore add it, see transport.TokenStoredOffset
	sequence atomic.Uint32 // futex word, changed before every wake
	waiters  atomic.Uint32 // goroutines and threads, of all processes, that sleep or are about to sleep
	_        [CellSize - 24]byte
}

// At returns the Cell at p, which must be aligned to CellSize and point to CellSize bytes that outlive every use of the
// Cell.
func At(p unsafe.Pointer) *Cell {
	if uintptr(p)%CellSize != 0 {
		panic(fmt.Sprintf("wait: a cell at %p is not aligned to %d bytes", p, CellSize))
	}
	return (*Cell)(p)
}

// Load returns the value.
func (c *Cell) Load() uint64 { return c.value.Load() }

// Add adds delta, wakes the sleepers, and returns the new value.
func (c *Cell) Add(delta uint64) uint64 {
	v := c.value.Add(delta)
	c.Wake()
	return v
}

// Store sets the value and wakes the sleepers.
func (c *Cell) Store(v uint64) {
	c.value.Store(v)
	c.Wake()
}

// AddSilent adds delta without waking sleepers. The caller must call Wake later.
func (c *Cell) AddSilent(delta uint64) uint64 { return c.value.Add(delta) }

// Wake wakes the cell's sleepers, for a condition that depends on more than its value. It costs one load if there is no
// sleeper. The change that it announces must have been made with a read-modify-write or a store of package sync/atomic.
func (c *Cell) Wake() {
	if c.waiters.Load() != 0 {
		c.wakeSleepers()
	}
}

func (c *Cell) wakeSleepers() {
	c.sequence.Add(1)
	// The only possible error is an unmapped word, on which the line above would have crashed.
	_, _ = futex.Wake(&c.sequence, futex.All)
}

// Reached reports whether the value is at or past target, modulo 2⁶⁴.
func (c *Cell) Reached(target uint64) bool { return int64(c.value.Load()-target) >= 0 }

// WaitAtLeast waits until the value is at or past target (see Reached). It fails with ErrTimeout or an *AbortError. A
// nil policy means Default.
func (c *Cell) WaitAtLeast(target uint64, l Limit, p *Policy) error {
	if c.Reached(target) {
		return nil
	}
	return Until(c, func() bool { return c.Reached(target) }, l, p)
}
