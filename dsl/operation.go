package dsl

import "github.com/goccl/goccl/plan"

// opName is an operation's name in a plan.
type opName = plan.OpName

// operand is a chunk with the way it is reached: local when channel and sw are nil, through a channel, or through a switch group (then
// chunk.Rank is the accessing rank and the chunk stands for the same place on every member).
type operand struct {
	chunk   Chunk
	channel *channel
	sw      *SwitchChannel
}

// operation is one step of one thread block. Passes rewrite the slice of operations of a rank; an operation itself is never shared.
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

	origin *operation // in the fusion pass: what this is a copy of
}

// synchronises reports whether few threads execute the operation, so that the block must meet around it.
func (o *operation) synchronises() bool {
	switch o.name {
	case plan.Signal, plan.Wait, plan.RlxSignal, plan.RlxWait, plan.Flush, plan.SemAcquire, plan.SemRelease:
		return true
	}
	return false
}

// publishes reports whether others may act on data of this block after the operation.
func (o *operation) publishes() bool {
	switch o.name {
	case plan.Signal, plan.RlxSignal, plan.SemRelease, plan.PutWithSignal, plan.PutWithSignalAndFlush, plan.Flush:
		return true
	case plan.Put, plan.PutPackets, plan.ReadPutPackets:
		return o.channelType == plan.PortChannel // the proxy reads the source once the trigger is pushed
	}
	return false
}

// admits reports whether the block may use others' data, or reuse its own, only after the operation.
func (o *operation) admits() bool {
	switch o.name {
	case plan.Wait, plan.RlxWait, plan.SemAcquire, plan.Flush:
		return true
	}
	return false
}

// meets reports whether all threads of the block meet in the operation.
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
