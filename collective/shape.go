package collective

// Shape is what a collective does with buffers that are divided into blocks of Request.Count elements. If a send buffer
// has a block for each rank, receiver r reads block r of every sender, else it reads the only block. It reduces these
// blocks into its only block, or copies them: the block of sender p to its block p, or to its only block if there is
// one sender. Operations with other buffers have the zero Shape.
type Shape struct {
	FromRoot, ToRoot bool // only the root sends, or receives
	Spread, Gathered bool // a send buffer, or a receive buffer, has a block for each rank
	Reduces          bool
}

var shapes = [1 << 8]Shape{
	AllReduce: {Reduces: true}, Reduce: {ToRoot: true, Reduces: true}, ReduceScatter: {Spread: true, Reduces: true},
	AllGather: {Gathered: true}, Gather: {ToRoot: true, Gathered: true}, AllToAll: {Spread: true, Gathered: true},
	Broadcast: {FromRoot: true}, Scatter: {FromRoot: true, Spread: true},
}

// Shape returns the shape of a collective.
func (c Collective) Shape() Shape { return shapes[c] }

// Extents gives the bytes that this rank's part of a request accesses from Send and from Recv on, in a communicator of
// the given number of ranks. It is 0 for a buffer that is not accessed, or whose counts are in device memory.
func (r *Request) Extents(rank, ranks int) (send, recv int64) {
	s := r.Collective.Shape()
	switch send, recv = r.Bytes(), r.Bytes(); {
	case r.Collective == AllToAllV:
		return r.reach(r.SendCounts, r.SendDispls), r.reach(r.RecvCounts, r.RecvDispls)
	case s == Shape{} && !r.PointToPoint():
		return 0, 0
	}
	if s.Spread {
		send *= int64(ranks)
	}
	if s.Gathered {
		recv *= int64(ranks)
	}
	if s.FromRoot && rank != r.Root || r.Collective == Recv {
		send = 0
	}
	if s.ToRoot && rank != r.Root || r.Collective == Send {
		recv = 0
	}
	return send, recv
}

// reach is the end of the last non-empty part, in bytes.
func (r *Request) reach(counts, displs []int64) (end int64) {
	for i, n := range counts {
		if n > 0 {
			end = max(end, (displs[i]+n)*r.Type.Size())
		}
	}
	return end
}
