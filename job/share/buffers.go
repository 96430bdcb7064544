package share

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
)

const (
	maxBuffers = 4096 // allocations of a rank
	memoryKept = 16   // nothing is shared while less than this part of the device's memory is free
)

// regions is a device that finds the allocation which holds p, without an export. It answers false for memory that
// other processes cannot map, and for memory whose end would not be noticed: unique must be another one for the next
// allocation at an address.
type regions interface {
	Region(p device.Ptr) (base device.Ptr, size int64, unique uint64, ok bool)
}

// Buffers shares users' buffers of GPUs with the other ranks of a communicator, in the background, from their first use
// on.
//
//  1. At numbers the allocation that holds a buffer. One goroutine exports it and sends the offer to all peers.
//  2. A peer maps the allocation in the goroutine that receives from this rank, and answers with the address, or with 0
//     if it cannot. Memory that one peer cannot map is not used.
//  3. When the memory was freed (Sweep), this rank says so. A peer then unmaps it, which waits for all kernels of the
//     peer's device, and so happens only while none runs (Sweep) and in Close.
//
// A kernel that uses peers' mappings of a buffer must not end before the peers have done with them: whoever frees the
// buffer waits for this rank's kernels only.
type Buffers struct {
	*mailbox
	dev     device.Device
	regions regions // nil: nothing is shared

	sweeping sync.Mutex // held by Sweep and Close, before mu

	mu       sync.Mutex            // guards the fields below, and buffers
	own      map[uint64]*buffer    // by unique
	byNumber map[uint32]*buffer    // offered to the peers
	last     uint32                // number
	maps     []map[uint32]*Mapping // peers' buffers, by rank and number
	retired  []*Mapping            // freed by their owners
	tasks    []func()              // for the goroutine that exports and sends, in order
	short    bool                  // of free memory, at the last Sweep or since
	wake     chan struct{}         // there are tasks
}

// buffer is an allocation of this rank.
type buffer struct {
	base    device.Ptr
	unique  uint64
	number  uint32        // 0: not offered
	at      []uint64      // base in the processes of the ranks; 0: not mapped
	missing int           // ranks that have not mapped it
	useless bool          // it cannot be shared
	full    bool          // it was not shared for lack of free memory; the next Sweep forgets it
	gone    bool          // it is not in own any more
	decided chan struct{} // closed when all ranks have mapped it, or never will
	once    sync.Once     // closes decided
	revoke  func()        // ends the export
}

func (a *buffer) decide() { a.once.Do(func() { close(a.decided) }) }

// NewBuffers shares nothing yet; it starts to receive the offers of peers. Its bootstrap messages carry tag, which
// nothing else may use.
func NewBuffers(b bootstrap.Bootstrap, tag int, dev device.Device) *Buffers {
	s := &Buffers{mailbox: newMailbox(b, tag, "buffer"), dev: dev, own: map[uint64]*buffer{},
		byNumber: map[uint32]*buffer{}, wake: make(chan struct{}, 1)}
	s.regions, _ = dev.(regions)
	for range s.size {
		s.maps = append(s.maps, map[uint32]*Mapping{})
	}
	s.running.Go(s.work)
	s.receive(s.handle, nil)
	return s
}

// At fills at[r], for every rank r, with the address in rank r's process of n bytes at p, and reports true, if every
// peer has mapped the allocation that holds them. Otherwise it reports false, and sharing has begun unless it is known
// to be impossible. It waits neither for peers nor for the device.
func (b *Buffers) At(p device.Ptr, n int64, at []uint64) bool {
	if b == nil {
		return false
	}
	a := b.find(p, n)
	if a == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if a.missing > 0 || a.useless || a.gone {
		return false
	}
	for r, base := range a.at {
		at[r] = base + uint64(p-a.base)
	}
	return true
}

// Await is At for callers that may wait, up to limit, for the peers to map.
func (b *Buffers) Await(p device.Ptr, n int64, at []uint64, limit time.Duration) bool {
	if b == nil {
		return false
	}
	if a := b.find(p, n); a != nil {
		select {
		case <-a.decided:
		case <-time.After(limit):
		case <-b.ctx.Done():
		}
	}
	return b.At(p, n, at)
}

// find returns the allocation that holds n bytes at p, or nil if it cannot be shared.
func (b *Buffers) find(p device.Ptr, n int64) *buffer {
	if b.regions == nil {
		return nil
	}
	base, size, unique, ok := b.regions.Region(p)
	if !ok || n > size-int64(p-base) {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.own[unique]
	if a == nil {
		if len(b.own) >= maxBuffers || b.ctx.Err() != nil {
			return nil
		}
		a = &buffer{base: base, unique: unique, at: make([]uint64, b.size), missing: b.size,
			decided: make(chan struct{}), revoke: func() {}}
		b.own[unique] = a
		b.later(func() { b.offer(a) })
	}
	return a
}

// forget removes an allocation from own, and reports whether it was there. The caller holds mu.
func (b *Buffers) forget(a *buffer) bool {
	if a.gone {
		return false
	}
	a.gone = true
	a.decide()
	delete(b.own, a.unique)
	return true
}

// Sweep looks for allocations that were freed, tells the peers, and unmaps memory that peers have freed if idle reports
// that no kernel of this device runs, nor is enqueued.
func (b *Buffers) Sweep(idle func() bool) {
	if b == nil || b.ctx.Err() != nil {
		return
	}
	b.sweeping.Lock()
	defer b.sweeping.Unlock()
	b.mu.Lock()
	b.short = false
	own := slices.Collect(maps.Values(b.own))
	b.mu.Unlock()
	for _, a := range own { // without mu, so that At need not wait
		_, _, unique, ok := b.regions.Region(a.base)
		b.mu.Lock()
		if freed := !ok || unique != a.unique; (freed || a.full) && b.forget(a) {
			b.later(func() { b.withdraw(a) })
		}
		b.mu.Unlock()
	}
	b.mu.Lock()
	retired := b.retired
	b.retired = nil
	b.mu.Unlock()
	for len(retired) > 0 && idle() {
		if err := retired[0].Close(); err != nil {
			slog.Debug("a peer's buffer cannot be unmapped", "rank", b.rank, "cause", err)
		}
		retired = retired[1:]
	}
	b.mu.Lock()
	b.retired = append(b.retired, retired...)
	b.mu.Unlock()
}

// Abandon ends waits and background work, without waiting for either. Abandon, Halt and Close accept a nil receiver.
func (b *Buffers) Abandon() {
	if b != nil {
		b.stop()
	}
}

// Halt stops the background goroutines; the mappings stay.
func (b *Buffers) Halt() {
	if b != nil {
		b.stop()
		b.running.Wait()
	}
}

// Close unmaps everything. No work may run any more.
func (b *Buffers) Close() error {
	if b == nil {
		return nil
	}
	b.Halt()
	b.sweeping.Lock()
	defer b.sweeping.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.byNumber {
		a.revoke()
	}
	for _, peer := range b.maps {
		b.retired = slices.AppendSeq(b.retired, maps.Values(peer))
	}
	err := device.CloseAll(b.retired...)
	b.own, b.byNumber, b.maps, b.retired = nil, nil, nil, nil
	return err
}
