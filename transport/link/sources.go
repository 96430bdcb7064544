package link

import (
	"slices"
	"sync"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport"
)

// Sources are the registered memories of this process from which Links of one port put directly. The owner of a
// registration adds it, and removes it, once its Links are flushed, before it closes the Region.
type Sources struct {
	mu  sync.RWMutex
	all []extent // sorted by address, without overlaps
}

type extent struct {
	ptr    device.Ptr
	size   int64
	region transport.Region
}

// Add makes the registration of size bytes at p known. Of memories that overlap the first is kept.
func (s *Sources) Add(p device.Ptr, size int64, r transport.Region) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.after(p)
	if i > 0 && s.all[i-1].ptr.Add(s.all[i-1].size) > p || i < len(s.all) && p.Add(size) > s.all[i].ptr {
		return
	}
	s.all = slices.Insert(s.all, i, extent{p, size, r})
}

// Remove forgets a registration.
func (s *Sources) Remove(r transport.Region) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(e extent) bool { return e.region == r })
}

// after returns the number of extents that begin at p or before.
func (s *Sources) after(p device.Ptr) int {
	i, _ := slices.BinarySearchFunc(s.all, p, func(e extent, p device.Ptr) int {
		if e.ptr <= p {
			return -1
		}
		return 1
	})
	return i
}

// find returns the registration that holds n bytes at p and the offset there, or nil.
func (s *Sources) find(p device.Ptr, n int64) (transport.Region, int64) {
	if s == nil {
		return nil, 0
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := s.after(p)
	if i == 0 {
		return nil, 0
	}
	e := &s.all[i-1]
	off := int64(p) - int64(e.ptr)
	if off > e.size-n {
		return nil, 0
	}
	return e.region, off
}
