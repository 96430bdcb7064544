package dsl

import (
	"iter"

	"github.com/goccl/goccl/plan"
)

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
	kind     *plan.OpKind
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
	bound       *plan.Bound // or nil

	origin *operation // in the fusion pass: the operation that this is a copy of
}

// synchronises reports whether only a few threads execute the operation, so that the block must synchronize around it.
func (o *operation) synchronises() bool { return o.kind.Synchronizes() }

// publishes reports whether other blocks or ranks may act on data of this block after the operation. A port channel's
// proxy reads the source once the trigger is pushed.
func (o *operation) publishes() bool {
	does := o.kind.Does
	return does&(plan.Adds|plan.Flushes) != 0 || does.Has(plan.Moves) && o.channelType == plan.PortChannel
}

// admits reports whether only after the operation the block may use data of others, or reuse its own buffers.
func (o *operation) admits() bool {
	return o.synchronises() && o.kind.Does&(plan.Takes|plan.Flushes) != 0
}

// meets reports whether the operation synchronizes all threads of the block.
func (o *operation) meets() bool { return o.kind.Does&(plan.Meets|plan.Joins) != 0 }

// isNop reports whether the operation synchronizes the threads and does nothing else.
func (o *operation) isNop() bool { return o.kind.Does == plan.Meets }

// nopBefore returns an operation that synchronizes the threads of o's block.
func nopBefore(o *operation) *operation {
	return &operation{kind: plan.Nop.Kind(), pos: o.pos, rank: o.rank, tb: o.tb, loop: o.loop}
}

// operands visits the sources, then the destinations.
func (o *operation) operands() iter.Seq[*operand] {
	return func(yield func(*operand) bool) {
		for i := range o.src {
			if !yield(&o.src[i]) {
				return
			}
		}
		for i := range o.dst {
			if !yield(&o.dst[i]) {
				return
			}
		}
	}
}

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
