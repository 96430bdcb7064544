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
