package dsl

import "github.com/goccl/goccl/plan"

// opName is the name of an operation in a plan.
type opName = plan.OpName

// operand is a chunk and how to access it: locally when channel and sw are nil, through a channel, or through a switch
// group. In a switch group, chunk.Rank is the accessing rank and the chunk stands for the same place on every member.
type operand struct {
	chunk   Chunk
	channel *channel
	sw      *SwitchChannel
}

// operation is one step of one thread block. Passes rewrite the slice of operations of a rank; an operation is never
// shared.
type operation struct {
	name     opName
	pos      Position
	rank, tb int
	loop     *loop

	src, dst    []operand
	channelType ChannelType // of channels, or of the remote operands
	channels    []*channel  // signalled, waited for, flushed, or carrying a port transfer
	semaphores  []*Semaphore
	barrier     *barrier
	slice, of   int // thread-block group: slice of `of`; of is 0 without a group
	reduce      ReduceOp
	sync        SyncType

	origin *operation // in the fusion pass: the operation that this is a copy of
}

// synchronises reports whether only a few threads execute the operation, so that the block must synchronize around it.
func (o *operation) synchronises() bool {
	switch o.name {
	case plan.Signal, plan.Wait, plan.RlxSignal, plan.RlxWait, plan.Flush, plan.SemAcquire, plan.SemRelease:
		return true
	}
	return false
}

// publishes reports whether other blocks or ranks may act on data of this block after the operation.
func (o *operation) publishes() bool {
	switch o.name {
	case plan.Signal, plan.RlxSignal, plan.SemRelease, plan.PutWithSignal, plan.PutWithSignalAndFlush, plan.Flush:
		return true
	case plan.Put, plan.PutPackets, plan.ReadPutPackets:
		return o.channelType == plan.PortChannel // the proxy reads the source once the trigger is pushed
	}
	return false
}

// admits reports whether only after the operation the block may use data of others, or reuse its own buffers.
func (o *operation) admits() bool {
	switch o.name {
	case plan.Wait, plan.RlxWait, plan.SemAcquire, plan.Flush:
		return true
	}
	return false
}

// meets reports whether the operation synchronizes all threads of the block.
func (o *operation) meets() bool { return o.name == plan.Nop || o.name == plan.Barrier }

// movesData reports whether the operation reads or writes buffers.
func (o *operation) movesData() bool { return len(o.src)+len(o.dst) > 0 }

type barrier struct {
	id     int
	blocks []int
}

type loop struct {
	index     int
	unit      uint64 // bytes of one iteration
	numChunks int
	pos       Position
}
