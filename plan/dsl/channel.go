package dsl

import (
	"fmt"

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
