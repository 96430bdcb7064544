package collective

import "github.com/goccl/goccl/device"

// Part is memory that one rank sends to another as it is, or receives from it. Without bytes there is none.
type Part struct {
	At    device.Ptr
	Bytes int64
}

// Parts gives, by rank, what this rank sends to each and receives from each, itself included. Both are nil if the
// operation computes, or its counts are in device memory.
func (r *Request) Parts(rank, ranks int) (sent, received []Part) {
	one := r.Bytes()
	slices := func(at device.Ptr, all bool) []Part {
		list := make([]Part, ranks)
		for p := range list {
			if list[p] = (Part{at, one}); all {
				list[p].At = at.Add(int64(p) * one)
			}
		}
		return list
	}
	only := func(p int, part Part) []Part {
		list := make([]Part, ranks)
		list[p] = part
		return list
	}
	atRoot, none := rank == r.Root, make([]Part, ranks)
	switch r.Collective {
	case Broadcast:
		if sent = none; atRoot {
			sent = slices(r.Send, false)
		}
		return sent, only(r.Root, Part{r.Recv, one})
	case AllGather:
		return slices(r.Send, false), slices(r.Recv, true)
	case Gather:
		if received = none; atRoot {
			received = slices(r.Recv, true)
		}
		return only(r.Root, Part{r.Send, one}), received
	case Scatter:
		if sent = none; atRoot {
			sent = slices(r.Send, true)
		}
		return sent, only(r.Root, Part{r.Recv, one})
	case AllToAll:
		return slices(r.Send, true), slices(r.Recv, true)
	case AllToAllV:
		return r.parts(r.Send, r.SendCounts, r.SendDispls), r.parts(r.Recv, r.RecvCounts, r.RecvDispls)
	case Send:
		return only(r.Peer, Part{r.Send, one}), none
	case Recv:
		return none, only(r.Peer, Part{r.Recv, one})
	}
	return nil, nil
}

func (r *Request) parts(at device.Ptr, counts, displs []int64) []Part {
	list := make([]Part, len(counts))
	for p, n := range counts {
		list[p] = Part{at.Add(displs[p] * r.Type.Size()), n * r.Type.Size()}
	}
	return list
}
