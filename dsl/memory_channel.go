package dsl

import "github.com/goccl/goccl/plan"

// MemoryChannel is the source rank's way to load and store the destination rank's memory, and to signal it.
type MemoryChannel struct{ *channel }

// MemoryChannel makes a channel of rank src to rank dst.
func (p *CollectiveProgram) MemoryChannel(dst, src int) *MemoryChannel {
	return &MemoryChannel{p.newChannel(plan.MemoryChannel, dst, src)}
}

// Signal tells the peer's paired channel that what this block did before is done. Options: TB, Sync, Relaxed.
func (c *MemoryChannel) Signal(opts ...Option) { c.point(plan.Signal, apply(opts)) }

// Wait blocks until the peer's paired channel has signalled once more. Options: TB, Sync, Relaxed.
func (c *MemoryChannel) Wait(opts ...Option) { c.point(plan.Wait, apply(opts)) }

// Get copies src of the peer to dst of the own rank. Options: TB, Group.
func (c *MemoryChannel) Get(dst, src Chunk, opts ...Option) {
	c.move(plan.Get, dst, src, false, apply(opts))
}

// Put copies src of the own rank to dst of the peer. Options: TB, Group.
func (c *MemoryChannel) Put(dst, src Chunk, opts ...Option) {
	c.move(plan.Put, dst, src, true, apply(opts))
}

// PutPackets encodes src as packets into the peer's scratch. Options: TB, Group.
func (c *MemoryChannel) PutPackets(dst, src Chunk, opts ...Option) {
	c.move(plan.PutPackets, dst, src, true, apply(opts))
}

// ReadPutPackets waits for packets in the own scratch and forwards them to the peer's. Options: TB, Group.
func (c *MemoryChannel) ReadPutPackets(dst, src Chunk, opts ...Option) {
	c.move(plan.ReadPutPackets, dst, src, true, apply(opts))
}

// Reduce adds remote chunks of the peer to local, in this order; the result goes to local or, with Into, elsewhere.
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
	p.emitReduce(&operation{name: plan.ReadReduce, pos: pos, rank: c.src, channelType: plan.MemoryChannel, src: src}, s)
}
