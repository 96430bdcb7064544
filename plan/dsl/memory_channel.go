package dsl

import "github.com/goccl/goccl/plan"

// MemoryChannel lets the source rank load and store the destination rank's memory, and signal the destination rank.
type MemoryChannel struct{ *channel }

// MemoryChannel creates a channel from rank src to rank dst.
func (p *CollectiveProgram) MemoryChannel(dst, src int) *MemoryChannel {
	return &MemoryChannel{p.newChannel(plan.MemoryChannel, dst, src)}
}

// Signal signals the peer's paired channel after all earlier operations of this block. Options: TB, Sync, Relaxed.
func (c *MemoryChannel) Signal(opts ...Option) { c.point(plan.Signal, apply(opts)) }

// Wait blocks until one more signal of the peer's paired channel has arrived. Options: TB, Sync, Relaxed.
func (c *MemoryChannel) Wait(opts ...Option) { c.point(plan.Wait, apply(opts)) }

// Get copies src of the peer to dst of this rank. Options: TB, Group.
func (c *MemoryChannel) Get(dst, src Chunk, opts ...Option) {
	c.move(plan.Get, dst, src, apply(opts))
}

// Put copies src of this rank to dst of the peer. Options: TB, Group.
func (c *MemoryChannel) Put(dst, src Chunk, opts ...Option) {
	c.move(plan.Put, dst, src, apply(opts))
}

// PutPackets encodes src as packets into the peer's scratch. Options: TB, Group.
func (c *MemoryChannel) PutPackets(dst, src Chunk, opts ...Option) {
	c.move(plan.PutPackets, dst, src, apply(opts))
}

// ReadPutPackets waits for packets in this rank's scratch and forwards them to the peer's. Options: TB, Group.
func (c *MemoryChannel) ReadPutPackets(dst, src Chunk, opts ...Option) {
	c.move(plan.ReadPutPackets, dst, src, apply(opts))
}

// Reduce adds the peer's remote chunks to local, in this order. The result goes to local or, with Into, elsewhere.
// Options: TB, Group, Into, With.
func (c *MemoryChannel) Reduce(local Chunk, remote []Chunk, opts ...Option) {
	if !c.valid() {
		return
	}
	p, pos, s := c.p, c.p.position(), apply(opts)
	src := []operand{{chunk: local}}
	for _, r := range remote {
		src = append(src, operand{chunk: r, channel: c.channel})
		if r.Size > 0 && r.Rank != c.dst {
			p.fail(pos, ErrMismatch, "", "reduce on the %v: the remote chunk is of %v", c, r)
			return
		}
	}
	if local.Size > 0 && local.Rank != c.src {
		p.fail(pos, ErrMismatch, "", "reduce on the %v: the local chunk is of %v", c, local)
		return
	}
	p.emitReduce(&operation{kind: plan.ReadReduce.Kind(), pos: pos, rank: c.src, channelType: plan.MemoryChannel,
		src: src}, s)
}
