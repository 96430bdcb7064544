package dsl

import "github.com/goccl/goccl/plan"

// Rank is one participant, with its buffers and its local operations.
type Rank struct {
	p  *CollectiveProgram
	id int
}

// Rank returns participant id.
func (p *CollectiveProgram) Rank(id int) *Rank {
	if id < 0 || id >= len(p.ranks) {
		p.fail(p.position(), ErrRange, "", "rank %d of %d", id, len(p.ranks))
		return &Rank{p: p, id: -1}
	}
	return &Rank{p: p, id: id}
}

// ID returns the rank's number.
func (r *Rank) ID() int { return r.id }

// Input returns the rank's send buffer.
func (r *Rank) Input() *Buffer {
	in, _ := r.p.views(max(r.id, 0))
	return in
}

// Output returns the rank's receive buffer. In place, it is another view of the memory of Input or of a part of it.
func (r *Rank) Output() *Buffer {
	_, out := r.p.views(max(r.id, 0))
	return out
}

// Scratch reserves size chunks of the rank's scratch.
func (r *Rank) Scratch(size int) *Buffer {
	b := &Buffer{p: r.p, rank: max(r.id, 0), buffer: Scratch}
	if r.id < 0 {
		return b
	}
	if size <= 0 {
		r.p.fail(r.p.position(), ErrRange, "", "scratch of %d chunks", size)
		return b
	}
	state := r.p.ranks[r.id]
	b.offset, b.size = state.scratch, size
	state.scratch += size
	return b
}

// Copy copies src to dst. Options: TB, Group.
func (r *Rank) Copy(dst, src Chunk, opts ...Option) { r.move(plan.Copy, dst, src, apply(opts)) }

// CopyPackets encodes src as packets into dst, a scratch chunk. Options: TB, Group.
func (r *Rank) CopyPackets(dst, src Chunk, opts ...Option) {
	r.move(plan.CopyPackets, dst, src, apply(opts))
}

// UnpackPackets waits for the packets of src, a scratch chunk, and decodes them into dst. Options: TB, Group.
func (r *Rank) UnpackPackets(dst, src Chunk, opts ...Option) {
	r.move(plan.UnpackPackets, dst, src, apply(opts))
}

// Reduce reduces acc and others, in this order. The result goes to acc or, with Into, elsewhere. With Packet, the
// others are packets in scratch. Options: TB, Group, Into, With, Packet.
func (r *Rank) Reduce(acc Chunk, others []Chunk, opts ...Option) {
	if r.id < 0 {
		return
	}
	name, s := plan.ReduceLocal, apply(opts)
	if s.packet {
		name = plan.ReducePackets
	}
	r.p.reduce(name, r.id, nil, acc, others, s)
}

// Barrier makes the listed blocks of the rank wait for each other. With one block, it synchronizes that block's
// threads.
func (r *Rank) Barrier(blocks ...int) {
	if r.id < 0 {
		return
	}
	p, pos := r.p, r.p.position()
	if !distinct(blocks) {
		p.fail(pos, ErrUsage, "list different thread blocks", "barrier among blocks %v", blocks)
		return
	}
	switch len(blocks) {
	case 0:
		p.fail(pos, ErrUsage, "", "barrier among no blocks")
	case 1:
		p.emit(&operation{kind: plan.Nop.Kind(), pos: pos, rank: r.id, tb: blocks[0]})
	default:
		bar := p.ranks[r.id].barrier(blocks)
		for _, b := range blocks {
			p.emit(&operation{kind: plan.Barrier.Kind(), pos: pos, rank: r.id, tb: b, barrier: bar})
		}
	}
}

func (r *Rank) move(name plan.OpName, dst, src Chunk, s settings) {
	if r.id >= 0 && r.p.records(r.id) {
		r.p.transfer(&operation{kind: name.Kind(), pos: r.p.position(), rank: r.id, src: []operand{{chunk: src}},
			dst: []operand{{chunk: dst}}}, s)
	}
}

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
