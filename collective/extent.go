package collective

// Extents gives the bytes that this rank's part of a request accesses from Send and from Recv on, in a communicator of
// the given number of ranks. It is 0 for a buffer that is not accessed, or whose counts are in device memory.
func (r *Request) Extents(rank, ranks int) (send, recv int64) {
	one, all := r.Bytes(), r.Bytes()*int64(ranks)
	atRoot := func(n int64) int64 {
		if rank == r.Root {
			return n
		}
		return 0
	}
	switch r.Collective {
	case AllReduce:
		return one, one
	case Broadcast:
		return atRoot(one), one
	case Reduce:
		return one, atRoot(one)
	case AllGather:
		return one, all
	case Gather:
		return one, atRoot(all)
	case ReduceScatter:
		return all, one
	case Scatter:
		return atRoot(all), one
	case AllToAll:
		return all, all
	case AllToAllV:
		return r.reach(r.SendCounts, r.SendDispls), r.reach(r.RecvCounts, r.RecvDispls)
	case Send:
		return one, 0
	case Recv:
		return 0, one
	}
	return 0, 0
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
