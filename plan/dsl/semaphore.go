package dsl

import "github.com/goccl/goccl/plan"

// Semaphore orders thread blocks of one rank. Its value persists between launches, so a program must leave it at its
// initial value.
type Semaphore struct {
	p       *CollectiveProgram
	rank    int
	id      int
	initial int
}

// Semaphore creates a semaphore of rank with an initial value.
func (p *CollectiveProgram) Semaphore(rank, initial int) *Semaphore {
	s := &Semaphore{p: p, rank: rank, initial: initial}
	if rank < 0 || rank >= len(p.ranks) || initial < 0 {
		p.fail(p.position(), ErrRange, "", "semaphore of rank %d (of %d) with initial value %d", rank, len(p.ranks), initial)
		s.p = nil
		return s
	}
	s.id = len(p.ranks[rank].semaphores)
	p.ranks[rank].semaphores = append(p.ranks[rank].semaphores, s)
	return s
}

// ID returns the number of the semaphore on its rank.
func (s *Semaphore) ID() int { return s.id }

// Acquire waits for a positive value and decrements it. Options: TB (required), Sync.
func (s *Semaphore) Acquire(opts ...Option) { s.point(plan.SemAcquire, apply(opts)) }

// Release increments the value. Options: TB (required), Sync.
func (s *Semaphore) Release(opts ...Option) { s.point(plan.SemRelease, apply(opts)) }

func (s *Semaphore) point(name plan.OpName, o settings) {
	if s.p == nil {
		return
	}
	pos := s.p.position()
	if o.group != nil || o.tb < 0 {
		s.p.fail(pos, ErrUsage, "name the block with TB", "%s orders thread blocks and needs to know its own", name)
		return
	}
	s.p.emit(&operation{kind: name.Kind(), pos: pos, rank: s.rank, tb: o.tb, semaphores: []*Semaphore{s}, sync: o.sync})
}
