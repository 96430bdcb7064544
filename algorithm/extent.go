package algorithm

// Extents are how many bytes from Send and Recv on this rank's part of a request touches, of a communicator of ranks ranks; 0 where it touches none, or where
// only the device knows.
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

// reach is where the last of some parts ends, in bytes.
func (r *Request) reach(counts, displs []int64) (end int64) {
	for i, n := range counts {
		if n > 0 {
			end = max(end, (displs[i]+n)*r.Type.Size())
		}
	}
	return end
}
