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
		p.fail(c.pos, ErrRange, "use two different ranks of the program", "%s channel from rank %d to rank %d, %d ranks", kind, src, dst, len(p.ranks))
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
func (c *channel) point(name opName, s settings) {
	if !c.valid() {
		return
	}
	if s.group != nil {
		c.p.fail(c.p.position(), ErrUsage, "name one block with TB", "%s on a thread-block group", name)
		return
	}
	if s.relaxed {
		if c.kind == plan.PortChannel {
			c.p.fail(c.p.position(), ErrUsage, "drop Relaxed: the proxy always orders", "relaxed %s on a port channel", name)
			return
		}
		name = "rlx" + name
	}
	c.p.emit(&operation{name: name, pos: c.p.position(), rank: c.src, tb: s.tb, channelType: c.kind, channels: []*channel{c}, sync: s.sync})
}

// move emits a data operation from or to the peer. remoteDst: the destination is remote, else the source.
func (c *channel) move(name opName, dst, src Chunk, remoteDst bool, s settings) {
	if !c.valid() {
		return
	}
	p, pos := c.p, c.p.position()
	ok := p.checkChunk(pos, "destination", dst)
	ok = p.checkChunk(pos, "source", src) && ok
	if !ok {
		return
	}
	remote, local := src, dst
	if remoteDst {
		remote, local = dst, src
	}
	switch {
	case remote.Rank != c.dst:
		p.fail(pos, ErrMismatch, "", "%s on the %v: the remote chunk is of %v", name, c, remote)
		return
	case local.Rank != c.src:
		p.fail(pos, ErrMismatch, "", "%s on the %v: the local chunk is of %v", name, c, local)
		return
	case dst.Size != src.Size:
		p.fail(pos, ErrMismatch, "", "%s of %d chunks to %d: %v, %v", name, src.Size, dst.Size, src, dst)
		return
	}
	switch name {
	case plan.PutPackets, plan.ReadPutPackets:
		if dst.Buffer != Scratch {
			p.fail(pos, ErrUsage, "put them into a scratch buffer", "%s writes packets to %v: packets live in scratch", name, dst)
			return
		}
		if src.Buffer != Scratch && (name == plan.ReadPutPackets || c.kind == plan.PortChannel) {
			p.fail(pos, ErrUsage, "copy with Rank.CopyPackets first", "%s sends packets as they are, but %v does not hold packets", name, src)
			return
		}
	}
	o := operation{name: name, pos: pos, rank: c.src, channelType: c.kind, channels: []*channel{c}}
	lo, ro := operand{chunk: local}, operand{chunk: remote, channel: c}
	if remoteDst {
		o.src, o.dst = []operand{lo}, []operand{ro}
	} else {
		o.src, o.dst = []operand{ro}, []operand{lo}
	}
	if c.kind == plan.PortChannel && s.group != nil {
		p.fail(pos, ErrUsage, "name one block with TB", "%s on a port channel by a thread-block group", name)
		return
	}
	p.emitShared(&o, s)
}
