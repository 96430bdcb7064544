package dsl

import (
	"fmt"
	"slices"

	"github.com/goccl/goccl/plan"
)

// ChannelType is how a channel moves data, with the names that plans use.
type ChannelType = plan.ChannelType

// channel is one directed channel, owned by rank src. The k-th channel of a type from a to b shares its pair of
// semaphores with the k-th from b to a: a wait on one consumes signals of the other.
type channel struct {
	p        *CollectiveProgram
	kind     ChannelType
	dst, src int
	id       int // among src's channels of this type
	nth      int // among those to dst
	pos      Position
}

// ID returns the number of the channel among the source rank's channels of this type.
func (c *channel) ID() int { return c.id }

// Dst returns the peer.
func (c *channel) Dst() int { return c.dst }

// Src returns the owner.
func (c *channel) Src() int { return c.src }

func (c *channel) String() string {
	return fmt.Sprintf("%s channel %d of rank %d to rank %d", c.kind, c.nth, c.src, c.dst)
}

func (p *CollectiveProgram) newChannel(kind ChannelType, dst, src int) *channel {
	c := &channel{p: p, kind: kind, dst: dst, src: src, pos: p.position()}
	if dst < 0 || dst >= len(p.ranks) || src < 0 || src >= len(p.ranks) || dst == src {
		p.fail(c.pos, ErrRange, "use two different ranks of the program", "%s channel from rank %d to rank %d, %d ranks",
			kind, src, dst, len(p.ranks))
		c.p = nil
		return c
	}
	r := p.ranks[src]
	c.id, c.nth = len(r.channels[kind]), r.channelsTo[channelKey{kind, dst}]
	r.channels[kind] = append(r.channels[kind], c)
	r.channelsTo[channelKey{kind, dst}]++
	return c
}

type channelKey struct {
	kind ChannelType
	peer int
}

// valid is false for a channel whose creation failed; the error has been recorded.
func (c *channel) valid() bool { return c.p != nil }

// point emits an operation that uses only the channel.
func (c *channel) point(name plan.OpName, s settings) {
	if !c.valid() || !c.p.records(c.src) {
		return
	}
	kind := name.Kind()
	if s.group != nil {
		c.p.fail(c.p.position(), ErrUsage, "name one block with TB", "%s on a thread-block group", kind)
		return
	}
	if s.relaxed {
		if c.kind == plan.PortChannel {
			c.p.fail(c.p.position(), ErrUsage, "drop Relaxed: the proxy always orders", "relaxed %s on a port channel", kind)
			return
		}
		kind = plan.FindOp(func(k *plan.OpKind) bool { return k.Relaxes == name })
	}
	c.p.emit(&operation{kind: kind, pos: c.p.position(), rank: c.src, tb: s.tb, channelType: c.kind,
		channels: []*channel{c}, sync: s.sync})
}

// move emits a data operation from or to the peer.
func (c *channel) move(name plan.OpName, dst, src Chunk, s settings) {
	if !c.valid() || !c.p.records(c.src) {
		return
	}
	o := &operation{kind: name.Kind(), pos: c.p.position(), rank: c.src, channelType: c.kind, channels: []*channel{c},
		src: []operand{{chunk: src}}, dst: []operand{{chunk: dst}}}
	remote := o.dst
	if o.kind.Src.At(0).Chunk() == plan.RemoteChunk {
		remote = o.src
	}
	remote[0].channel = c
	if s.group != nil && !o.kind.Sliced(c.kind) {
		c.p.fail(o.pos, ErrUsage, "name one block with TB", "%s on a port channel by a thread-block group", name)
		return
	}
	c.p.transfer(o, s)
}

// Signal signals the peer's paired channel: on a memory channel after all earlier operations of this block, on a port
// channel after all transfers that were pushed before. Options: TB, Sync, and Relaxed on a memory channel.
func (c *channel) Signal(opts ...Option) { c.point(plan.Signal, apply(opts)) }

// Wait blocks until one more signal of the peer's paired channel has arrived. Options: as Signal.
func (c *channel) Wait(opts ...Option) { c.point(plan.Wait, apply(opts)) }

// Put copies src of this rank to dst of the peer; on a port channel it pushes the transfer. Options: TB, and Group on a
// memory channel.
func (c *channel) Put(dst, src Chunk, opts ...Option) { c.move(plan.Put, dst, src, apply(opts)) }

// PutPackets writes packets to dst, the peer's scratch: a memory channel encodes src, a port channel pushes the packets
// that src, a scratch chunk, already holds. Options: as Put.
func (c *channel) PutPackets(dst, src Chunk, opts ...Option) {
	c.move(plan.PutPackets, dst, src, apply(opts))
}

// ReadPutPackets waits for packets in src, this rank's scratch, and forwards them to the peer's. Options: TB, Group.
func (c *channel) ReadPutPackets(dst, src Chunk, opts ...Option) {
	c.move(plan.ReadPutPackets, dst, src, apply(opts))
}

// MemoryChannel lets the source rank load and store the destination rank's memory, and signal the destination rank.
type MemoryChannel struct{ *channel }

// MemoryChannel creates a channel from rank src to rank dst.
func (p *CollectiveProgram) MemoryChannel(dst, src int) *MemoryChannel {
	return &MemoryChannel{p.newChannel(plan.MemoryChannel, dst, src)}
}

// Get copies src of the peer to dst of this rank. Options: TB, Group.
func (c *MemoryChannel) Get(dst, src Chunk, opts ...Option) {
	c.move(plan.Get, dst, src, apply(opts))
}

// Reduce adds the peer's remote chunks to local, in this order. The result goes to local or, with Into, elsewhere.
// Options: TB, Group, Into, With.
func (c *MemoryChannel) Reduce(local Chunk, remote []Chunk, opts ...Option) {
	if c.valid() {
		c.p.reduce(plan.ReadReduce, c.src, c.channel, local, remote, apply(opts))
	}
}

// PortChannel lets the source rank's proxy move data to the destination rank, by a NIC between hosts or by a copy
// engine. An operation uses one thread block; a group can share only ReadPutPackets, each block a slice of it.
type PortChannel struct{ *channel }

// PortChannel creates a channel from rank src to rank dst.
func (p *CollectiveProgram) PortChannel(dst, src int) *PortChannel {
	return &PortChannel{p.newChannel(plan.PortChannel, dst, src)}
}

// Flush blocks until the transfers pushed before have left their source. Options: TB, Sync.
func (c *PortChannel) Flush(opts ...Option) { c.point(plan.Flush, apply(opts)) }

// PutWithSignal pushes a transfer and a signal behind it. Options: TB.
func (c *PortChannel) PutWithSignal(dst, src Chunk, opts ...Option) {
	c.move(plan.PutWithSignal, dst, src, apply(opts))
}

// PutWithSignalAndFlush is PutWithSignal, and then waits until the source may be overwritten. Options: TB.
func (c *PortChannel) PutWithSignalAndFlush(dst, src Chunk, opts ...Option) {
	c.move(plan.PutWithSignalAndFlush, dst, src, apply(opts))
}

// Link is a channel from one rank to another wherever they are: over memory on one host, a port channel between hosts.
type Link struct{ *channel }

// Link creates a link from rank src to rank dst, over memory or not.
func (p *CollectiveProgram) Link(dst, src int, memory bool) Link {
	kind := plan.PortChannel
	if memory {
		kind = plan.MemoryChannel
	}
	return Link{p.newChannel(kind, dst, src)}
}

// Memory returns the link's memory channel, or nil.
func (l Link) Memory() *MemoryChannel {
	if l.kind != plan.MemoryChannel {
		return nil
	}
	return &MemoryChannel{l.channel}
}

// Ready and AwaitReady are a handshake at the beginning of a launch: they order arrival, not data.
func (l Link) Ready(opts ...Option) { l.point(plan.Signal, l.arrival(opts)) }

// AwaitReady waits for the peer's Ready.
func (l Link) AwaitReady(opts ...Option) { l.point(plan.Wait, l.arrival(opts)) }

func (l Link) arrival(opts []Option) settings {
	s := apply(opts)
	s.relaxed = l.kind == plan.MemoryChannel
	return s
}

// Send puts src to dst at the peer and signals it.
func (l Link) Send(dst, src Chunk, opts ...Option) {
	if l.kind == plan.PortChannel {
		l.move(plan.PutWithSignal, dst, src, apply(opts))
		return
	}
	l.Put(dst, src, opts...)
	l.Signal(opts...)
}

// Drain waits until sent data has left its source, because the caller may overwrite the source after the launch. Stores
// need no wait.
func (l Link) Drain(opts ...Option) {
	if l.kind == plan.PortChannel {
		l.point(plan.Flush, apply(opts))
	}
}

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
