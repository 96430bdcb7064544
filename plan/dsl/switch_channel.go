package dsl

import (
	"fmt"
	"slices"

	"github.com/goccl/goccl/plan"
)

// SwitchChannel is one buffer of a group of ranks, accessed as one: a load reduces over the members, a store writes to
// all of them. Without multicast the executor loads from and stores to every member.
type SwitchChannel struct {
	p      *CollectiveProgram
	ranks  []int
	buffer BufferType
	ids    []int // per member: position among the switch channels of that rank
	pos    Position
}

// SwitchChannel creates a switch channel over a buffer of the given ranks.
func (p *CollectiveProgram) SwitchChannel(ranks []int, buffer BufferType) *SwitchChannel {
	s := &SwitchChannel{p: p, buffer: buffer, ranks: append([]int(nil), ranks...), pos: p.position()}
	switch {
	case len(ranks) > 0 && (!distinct(ranks) || slices.Max(ranks) >= len(p.ranks)):
		p.fail(s.pos, ErrRange, "list different ranks of the program", "switch channel over ranks %v of %d", ranks,
			len(p.ranks))
	case len(ranks) < 2:
		p.fail(s.pos, ErrRange, "", "switch channel over %d rank", len(ranks))
	case !buffer.Valid():
		p.fail(s.pos, ErrRange, `use "i", "o" or "s"`, "switch channel over an unknown buffer %q", string(buffer))
	default:
		for _, r := range ranks {
			s.ids = append(s.ids, len(p.ranks[r].switches))
			p.ranks[r].switches = append(p.ranks[r].switches, s)
		}
		return s
	}
	s.p = nil
	return s
}

// SwitchRank is a switch channel as used by one of its members.
type SwitchRank struct {
	s    *SwitchChannel
	rank int
}

// AtRank returns the switch channel as used by rank.
func (s *SwitchChannel) AtRank(rank int) *SwitchRank {
	if s.p != nil && s.member(rank) < 0 {
		s.p.fail(s.p.position(), ErrRange, "", "rank %d is no member of the switch channel over %v", rank, s.ranks)
		return &SwitchRank{s: &SwitchChannel{}, rank: rank}
	}
	return &SwitchRank{s: s, rank: rank}
}

func (s *SwitchChannel) member(rank int) int { return slices.Index(s.ranks, rank) }

func (s *SwitchChannel) String() string {
	return fmt.Sprintf("switch channel over the %s buffers of %v", bufferName(s.buffer), s.ranks)
}

// operand returns the range [offset, offset+size) of the group's buffers. In place, the views of all members are one
// buffer, so offsets count from the start of the underlying buffer.
func (s *SwitchChannel) operand(rank, offset, size int) operand {
	b := s.buffer
	in, out := s.p.views(rank)
	switch b {
	case Input:
		b = in.buffer
	case Output:
		b = out.buffer
	}
	return operand{sw: s, chunk: Chunk{Rank: rank, Buffer: b, Index: offset, Size: size}}
}

// Reduce loads size chunks at offset from every member, reduces them in rank order and stores the result in dst.
// Options: TB, Group, With.
func (r *SwitchRank) Reduce(offset, size int, dst Chunk, opts ...Option) {
	r.move(plan.SwitchReduce, dst, offset, size, apply(opts))
}

// Broadcast stores src at offset in every member's buffer. Options: TB, Group.
func (r *SwitchRank) Broadcast(src Chunk, offset, size int, opts ...Option) {
	r.move(plan.SwitchStore, src, offset, size, apply(opts))
}

// BroadcastPackets waits for the packets of src, a scratch chunk, and stores them at offset in every member's scratch.
// Options: TB, Group.
func (r *SwitchRank) BroadcastPackets(src Chunk, offset, size int, opts ...Option) {
	r.move(plan.SwitchStorePackets, src, offset, size, apply(opts))
}

// move emits an operation between a chunk of this rank and the group's buffers.
func (r *SwitchRank) move(name plan.OpName, local Chunk, offset, size int, s settings) {
	p := r.s.p
	if p == nil {
		return
	}
	o := &operation{kind: name.Kind(), pos: p.position(), rank: r.rank, channelType: plan.SwitchChannel, reduce: s.op}
	o.src, o.dst = []operand{{chunk: local}}, []operand{r.s.operand(r.rank, offset, size)}
	if o.kind.Src.At(0).Chunk() == plan.SwitchChunk {
		o.src, o.dst = o.dst, o.src
	}
	p.transfer(o, s)
}
