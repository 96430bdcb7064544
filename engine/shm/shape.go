package shm

import "github.com/goccl/goccl/collective"

// rankSet is a set of ranks: one rank, or one of the constants below.
type rankSet int

const (
	nobody   rankSet = -2
	everyone rankSet = -1
)

func (s rankSet) has(r int) bool { return s == everyone || int(s) == r }

// shape is what a collective does with buffers that are divided into blocks of Request.Count elements. If a send buffer
// has a block for each rank, receiver r reads block r of every sender, else it reads the only block. It reduces these
// blocks into its only block, or copies them: the block of sender p to its block p, or to its only block if there is
// one sender.
type shape struct {
	from, to   rankSet // ranks whose send buffers are read, and ranks that receive
	send, recv int     // blocks in a send buffer and in a receive buffer: one, or one per rank
	reduce     bool
}

// shapeOf returns the shape of a collective of n ranks. ok is false for operations that have none.
func shapeOf(r *collective.Request, n int) (s shape, ok bool) {
	root := rankSet(r.Root)
	switch r.Collective {
	case collective.AllReduce:
		return shape{from: everyone, to: everyone, send: 1, recv: 1, reduce: true}, true
	case collective.Reduce:
		return shape{from: everyone, to: root, send: 1, recv: 1, reduce: true}, true
	case collective.ReduceScatter:
		return shape{from: everyone, to: everyone, send: n, recv: 1, reduce: true}, true
	case collective.AllGather:
		return shape{from: everyone, to: everyone, send: 1, recv: n}, true
	case collective.Gather:
		return shape{from: everyone, to: root, send: 1, recv: n}, true
	case collective.AllToAll:
		return shape{from: everyone, to: everyone, send: n, recv: n}, true
	case collective.Broadcast:
		return shape{from: root, to: everyone, send: 1, recv: 1}, true
	case collective.Scatter:
		return shape{from: root, to: everyone, send: n, recv: 1}, true
	}
	return shape{}, false
}

// block is the offset of block k in a buffer of the given number of blocks, each of which has size bytes.
func block(blocks, k int, size int64) int64 {
	if blocks == 1 {
		return 0
	}
	return int64(k) * size
}

// shared reports whether all receivers want the same sum, so that ranks can share out the reduction.
func (s shape) shared() bool { return s.reduce && s.send == 1 }
