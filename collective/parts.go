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
	s, away, other := r.Collective.Shape(), rank != r.Root, r.Root
	switch {
	case r.Collective == AllToAllV:
		return r.parts(r.Send, r.SendCounts, r.SendDispls), r.parts(r.Recv, r.RecvCounts, r.RecvDispls)
	case r.PointToPoint():
		s, away, other = Shape{FromRoot: r.Collective == Recv, ToRoot: r.Collective == Send}, true, r.Peer
	case s.Reduces || s == (Shape{}):
		return nil, nil
	}
	// Only one rank is at the other side, or none.
	parts := func(at device.Ptr, one, none, blocks bool) []Part {
		list := make([]Part, ranks)
		for p := range list {
			if none || one && p != other {
				continue
			}
			if list[p] = (Part{at, r.Bytes()}); blocks {
				list[p].At = at.Add(int64(p) * r.Bytes())
			}
		}
		return list
	}
	return parts(r.Send, s.ToRoot, s.FromRoot && away, s.Spread), parts(r.Recv, s.FromRoot, s.ToRoot && away, s.Gathered)
}

func (r *Request) parts(at device.Ptr, counts, displs []int64) []Part {
	list := make([]Part, len(counts))
	for p, n := range counts {
		list[p] = Part{at.Add(displs[p] * r.Type.Size()), n * r.Type.Size()}
	}
	return list
}
