package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/share"
	"github.com/goccl/goccl/transport/wire"
)

const (
	shareKind    = 0x42 // 'B': a buffer
	shareVersion = 1

	maxOffers   = 16 // allocations of this rank that are exported
	maxMappings = 16 // allocations of each peer that are mapped
)

// shares keeps user buffers accessible across processes: the allocations that this rank exports, and the peers'
// allocations that it has mapped. Both lists are bounded. The oldest entry is dropped, and is added again on its next
// use. The memory of a freed allocation is released only when its entry is dropped.
type shares struct {
	e      *Executor
	mu     sync.Mutex
	offers []offer
	maps   map[int][]*mapped // by peer
}

type offer struct {
	unique uint64
	base   device.Ptr
	record []byte
	revoke func()
}

// mapped is an allocation of a peer. It is not unmapped while a launch uses it.
type mapped struct {
	unique  uint64
	mapping *share.Mapping // starts at the first byte of the allocation
	size    int64
	uses    int
}

func newShares(e *Executor) *shares { return &shares{e: e, maps: map[int][]*mapped{}} }

// lendable reports whether peers can access the n bytes at p, and whether this access can be revoked.
func (s *shares) lendable(p device.Ptr, n int64) bool {
	dev, isHost := s.e.dev.(*host.Device)
	if !isHost {
		return false
	}
	region, err := dev.Lookup(p)
	if err != nil || region.Exported || !region.OwnPages(p, n) {
		return false
	}
	_, _, ok := s.describe(p)
	return ok
}

// describe returns the record that peers need to map p's allocation, and p's offset in it. ok is false when only this
// process can access p.
func (s *shares) describe(p device.Ptr) (o offer, offset int64, ok bool) {
	dev, isHost := s.e.dev.(*host.Device)
	if !isHost {
		return offer{}, 0, false
	}
	region, err := dev.Lookup(p)
	if err != nil || !region.Shareable {
		return offer{}, 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.offers {
		if o := s.offers[i]; o.unique == region.Unique && o.base == region.Base {
			return o, int64(p - region.Base), true
		}
	}
	desc, revoke, err := share.Export(host.Lender{Device: dev}, region.Base)
	if err != nil || desc.Handle.Unique != region.Unique {
		return offer{}, 0, false
	}
	var w wire.Writer
	desc.Put(&w)
	rec := w.Seal(shareKind, shareVersion)
	if len(rec) > maxShare {
		revoke()
		return offer{}, 0, false
	}
	if len(s.offers) >= maxOffers {
		s.offers[0].revoke()
		s.offers = append(s.offers[:0], s.offers[1:]...)
	}
	o = offer{region.Unique, region.Base, rec, revoke}
	s.offers = append(s.offers, o)
	return o, int64(p - region.Base), true
}

// reach maps the allocation that a peer described. The caller must release it with done.
func (s *shares) reach(ctx context.Context, peer int, unique uint64, record []byte) (*mapped, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.maps[peer]
	for _, m := range list {
		if m.unique == unique {
			m.uses++
			return m, nil
		}
	}
	body, err := wire.Open(record, shareKind, shareVersion)
	if err != nil {
		return nil, err
	}
	desc := share.Get(body)
	if err := body.Done(); err != nil {
		return nil, err
	}
	if desc.Handle.Unique != unique || desc.Handle.Offset != 0 {
		return nil, fmt.Errorf("%w: the description is of another allocation", wire.ErrFormat)
	}
	mapping, err := share.Map(ctx, s.e.dev, &desc)
	if err != nil {
		return nil, err
	}
	m := &mapped{unique: unique, mapping: mapping, size: desc.Handle.Size, uses: 1}
	if len(list) >= maxMappings {
		if i := slices.IndexFunc(list, func(m *mapped) bool { return m.uses == 0 }); i >= 0 {
			err = list[i].mapping.Close()
			list = slices.Delete(list, i, i+1)
		}
	}
	s.maps[peer] = append(list, m)
	return m, err
}

func (s *shares) done(m *mapped) {
	s.mu.Lock()
	m.uses--
	s.mu.Unlock()
}

func (s *shares) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.offers {
		o.revoke()
	}
	var errs []error
	for _, list := range s.maps {
		for _, m := range list {
			errs = append(errs, m.mapping.Close())
		}
	}
	s.offers, s.maps = nil, map[int][]*mapped{}
	return errors.Join(errs...)
}
