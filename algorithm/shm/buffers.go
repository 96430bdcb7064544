package shm

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/share"
	"github.com/goccl/goccl/transport/wire"
)

const (
	registrationBytes = 512
	maxRegistrations  = 32 // live ones per rank; another one retires the oldest

	registrationKind    = 0x52 // 'R'
	registrationVersion = 1

	// mapFor bounds the mapping of one peer's buffers. After a timeout no more buffers of that peer are mapped.
	mapFor = 2 * time.Second
)

// registration is the record by which peers map an allocation of the window's owner. Numbers are never reused: a slot
// with another number, or none, means that the owner has retired the registration. The owner stores 0, then the body,
// then the number.
type registration struct {
	number atomic.Uint32
	size   uint32
	body   [registrationBytes - 8]byte
}

// buffers makes user memory reachable across processes: allocations of host devices, which are memfds. Other memory is
// staged.
//
// The first large request on an allocation registers it and is staged. While it runs, each rank maps the new
// registrations of its peers and publishes that in its next descriptor. A request runs straight between the buffers
// once all ranks have published that for all its buffers, so all ranks decide alike. The owner retires allocations that
// were freed or taken back at its next large request, and the peers unmap them at their next one after that. Until then
// the memory stays allocated.
type buffers struct {
	e     *Engine
	own   []registered // live, by number
	last  uint32
	peers []peerBuffers
}

type registered struct {
	number uint32
	region host.Region
	revoke func()
}

type peerBuffers struct {
	known  uint32 // registrations up to this number are mapped or retired
	failed bool   // known no longer grows
	maps   []mapped
}

type mapped struct {
	number  uint32
	base    device.Ptr
	size    int64
	mapping *share.Mapping
}

func newBuffers(e *Engine) *buffers {
	return &buffers{e: e, peers: make([]peerBuffers, e.size)}
}

// place finds, or makes, the registration of n bytes at p. other is the request's other buffer; its registration must
// stay. A buffer that peers write to must be one that can be taken back.
func (b *buffers) place(p device.Ptr, n int64, other place, written bool) place {
	out := place{address: uint64(p)}
	if p == 0 || n == 0 {
		return out
	}
	region, err := b.e.dev.Lookup(p)
	if err != nil || !region.Shareable || int64(p-region.Base)+n > region.Size || written && (region.Exported || !region.OwnPages(p, n)) {
		return out
	}
	i := slices.IndexFunc(b.own, func(r registered) bool { return r.region.Unique == region.Unique })
	if i < 0 {
		if !b.register(region, other.number) {
			return out
		}
		i = len(b.own) - 1
	}
	out.number, out.offset = b.own[i].number, uint64(p-region.Base)
	return out
}

func (b *buffers) register(region host.Region, keep uint32) bool {
	full := len(b.own) > 0 && b.own[0].number+maxRegistrations <= b.last+1
	if full && b.own[0].number == keep {
		return false
	}
	desc, revoke, err := share.Export(host.Lender{Device: b.e.dev}, region.Base)
	if err != nil {
		return false
	}
	var w wire.Writer
	desc.Put(&w)
	rec := w.Seal(registrationKind, registrationVersion)
	mine := b.e.windows[b.e.rank]
	slot := mine.registration(b.last + 1)
	if desc.Handle.Unique != region.Unique || len(rec) > len(slot.body) {
		revoke()
		return false
	}
	b.last++
	if full {
		b.retire(0)
	}
	slot.size = uint32(copy(slot.body[:], rec))
	slot.number.Store(b.last)
	mine.newest().Store(b.last)
	b.own = append(b.own, registered{b.last, region, revoke})
	return true
}

func (b *buffers) retire(i int) {
	r := b.own[i]
	b.e.windows[b.e.rank].registration(r.number).number.Store(0)
	r.revoke()
	b.own = slices.Delete(b.own, i, i+1)
}

// tidy retires this rank's registrations whose memory was freed, and unmaps the registrations that peers have retired.
func (b *buffers) tidy() {
	for i := len(b.own) - 1; i >= 0; i-- {
		want := b.own[i].region
		if now, err := b.e.dev.Lookup(want.Base); err != nil || now.Unique != want.Unique {
			b.retire(i)
		}
	}
	for r := range b.peers {
		p := &b.peers[r]
		p.maps = slices.DeleteFunc(p.maps, func(m mapped) bool {
			if b.e.windows[r].registration(m.number).number.Load() == m.number {
				return false
			}
			_ = m.mapping.Close()
			return true
		})
	}
}

// say stores what this rank has mapped, for the phase that is published next.
func (b *buffers) say() {
	e := b.e
	known := e.windows[e.rank].known(e.phase + 1)
	for r := range known {
		known[r] = b.peers[r].known
	}
}

// learn maps the registrations that peers have added since the last call.
func (b *buffers) learn(limit wait.Limit) {
	e := b.e
	end := time.Now().Add(mapFor)
	if limit.Deadline != 0 {
		end = time.Now().Add(min(mapFor, time.Duration(limit.Deadline-wait.Now())))
	}
	for r := range b.peers {
		p := &b.peers[r]
		for newest := e.windows[r].newest().Load(); r != e.rank && !p.failed && p.known != newest; {
			p.failed = !b.mapOne(r, p.known+1, end)
			if !p.failed {
				p.known++
			}
		}
	}
}

// mapOne maps one registration of rank r. It returns false if that failed although the registration still exists.
func (b *buffers) mapOne(r int, number uint32, end time.Time) bool {
	slot := b.e.windows[r].registration(number)
	if slot.number.Load() != number {
		return true
	}
	body := slices.Clone(slot.body[:min(int(slot.size), len(slot.body))])
	err := func() error {
		rd, err := wire.Open(body, registrationKind, registrationVersion)
		if err != nil {
			return err
		}
		desc := share.Get(rd)
		if err := rd.Done(); err != nil {
			return err
		}
		ctx, stop := context.WithDeadline(context.Background(), end)
		defer stop()
		m, err := share.Map(ctx, b.e.dev, &desc)
		if err != nil {
			return err
		}
		b.peers[r].maps = append(b.peers[r].maps, mapped{number, m.Ptr, desc.Handle.Size, m})
		return nil
	}()
	return err == nil || slot.number.Load() != number
}

// at is the address in this process of n bytes of a buffer that rank r described, or 0 if it is not mapped.
func (b *buffers) at(r int, p place, n int64) device.Ptr {
	for _, m := range b.peers[r].maps {
		if m.number == p.number && p.offset <= uint64(m.size) && n <= m.size-int64(p.offset) {
			return m.base.Add(int64(p.offset))
		}
	}
	return 0
}

func (b *buffers) close() error {
	for len(b.own) > 0 {
		b.retire(len(b.own) - 1)
	}
	var errs []error
	for r := range b.peers {
		for _, m := range b.peers[r].maps {
			errs = append(errs, m.mapping.Close())
		}
		b.peers[r].maps = nil
	}
	return errors.Join(errs...)
}
