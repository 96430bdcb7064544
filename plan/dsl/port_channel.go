package dsl

import "github.com/goccl/goccl/plan"

// PortChannel lets the source rank's proxy move data to the destination rank, by a NIC between hosts or by a copy
// engine. An operation uses one thread block; a group can share only ReadPutPackets, each block a slice of it.
type PortChannel struct{ *channel }

// PortChannel creates a channel from rank src to rank dst.
func (p *CollectiveProgram) PortChannel(dst, src int) *PortChannel {
	return &PortChannel{p.newChannel(plan.PortChannel, dst, src)}
}

// Signal signals the peer's paired channel after all transfers that were pushed before. Options: TB, Sync.
func (c *PortChannel) Signal(opts ...Option) { c.point(plan.Signal, apply(opts)) }

// Wait blocks until one more signal of the peer's paired channel has arrived. Options: TB, Sync.
func (c *PortChannel) Wait(opts ...Option) { c.point(plan.Wait, apply(opts)) }

// Flush blocks until the transfers pushed before have left their source. Options: TB, Sync.
func (c *PortChannel) Flush(opts ...Option) { c.point(plan.Flush, apply(opts)) }

// Put pushes a transfer of src to dst of the peer. Options: TB.
func (c *PortChannel) Put(dst, src Chunk, opts ...Option) {
	c.move(plan.Put, dst, src, apply(opts))
}

// PutWithSignal pushes a transfer and a signal behind it. Options: TB.
func (c *PortChannel) PutWithSignal(dst, src Chunk, opts ...Option) {
	c.move(plan.PutWithSignal, dst, src, apply(opts))
}

// PutWithSignalAndFlush is PutWithSignal, and then waits until the source may be overwritten. Options: TB.
func (c *PortChannel) PutWithSignalAndFlush(dst, src Chunk, opts ...Option) {
	c.move(plan.PutWithSignalAndFlush, dst, src, apply(opts))
}

// PutPackets pushes packets that src, a scratch chunk, already holds. Options: TB.
func (c *PortChannel) PutPackets(dst, src Chunk, opts ...Option) {
	c.move(plan.PutPackets, dst, src, apply(opts))
}

// ReadPutPackets waits for packets in src and pushes them. Options: TB, Group.
func (c *PortChannel) ReadPutPackets(dst, src Chunk, opts ...Option) {
	c.move(plan.ReadPutPackets, dst, src, apply(opts))
}
