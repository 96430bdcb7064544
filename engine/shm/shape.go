package shm

import "github.com/goccl/goccl/collective"

// rankSet is a set of ranks: one rank, or one of the constants below.
type rankSet int

const (
	nobody   rankSet = -2
	everyone rankSet = -1
)

func (s rankSet) has(r int) bool { return s == everyone || int(s) == r }

// shape is collective.Shape of a request: the ranks whose send buffers are read, the ranks that receive, and the blocks
// in a send buffer and in a receive buffer.
type shape struct {
	from, to   rankSet
	send, recv int
	reduce     bool
}

// shapeOf returns the shape of a request of n ranks. ok is false for operations that have none.
func shapeOf(r *collective.Request, n int) (s shape, ok bool) {
	k := r.Collective.Shape()
	s = shape{from: everyone, to: everyone, send: 1, recv: 1, reduce: k.Reduces}
	if k.FromRoot {
		s.from = rankSet(r.Root)
	}
	if k.ToRoot {
		s.to = rankSet(r.Root)
	}
	if k.Spread {
		s.send = n
	}
	if k.Gathered {
		s.recv = n
	}
	return s, k != collective.Shape{}
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
