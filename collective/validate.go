package collective

import (
	"cmp"
	"fmt"
	"math"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// Validate checks what one rank of a communicator of n ranks can check without its device. The communicator calls it
// for every request; engines and other callers rely on it. The error wraps ErrInvalidArgument and names the field.
func (r *Request) Validate(rank, n int) error {
	if !r.Collective.Valid() {
		return bad("collective %v is not known", r.Collective)
	}
	if r.Collective == Barrier {
		return nil
	}
	if !r.Type.Valid() {
		return bad("element type %v is not known", r.Type)
	}
	// Divisions would take a tenth of the time of a call. Only counts that may be too large need them.
	if r.Count < 0 || r.Count >= 1<<31 && r.Count > math.MaxInt64/r.Type.Size()/int64(n) {
		return bad("count %d is negative or too large", r.Count)
	}
	if r.Collective.Shape().Reduces {
		if !r.Op.Valid() {
			return bad("reduction operator %v is not known", r.Op)
		}
		if r.Op == datatype.PreMulSum && r.ScalarPtr != 0 && int64(r.ScalarPtr)%r.Type.Size() != 0 {
			return bad("the scalar's address %#x is not aligned to %d bytes", r.ScalarPtr, r.Type.Size())
		}
	}
	switch r.Collective {
	case Broadcast, Reduce, Gather, Scatter:
		if r.Root < 0 || r.Root >= n {
			return bad("root %d is outside 0…%d", r.Root, n-1)
		}
	case Send, Recv:
		if r.Peer < 0 || r.Peer >= n {
			return bad("peer %d is outside 0…%d", r.Peer, n-1)
		}
	case AllToAllV:
		if err := r.validateV(rank, n); err != nil {
			return err
		}
		return r.validateNull(rank, n)
	case AllToAllVDevice:
		if err := r.DeviceCounts.validate(); err != nil {
			return err
		}
	}
	if mask := r.Type.Size() - 1; int64(r.Send|r.Recv)&mask != 0 { // sizes are powers of two
		send, recv := r.Extents(rank, n) // an unused address may be odd
		if r.Collective == AllToAllVDevice || send > 0 && int64(r.Send)&mask != 0 || recv > 0 && int64(r.Recv)&mask != 0 {
			return bad("buffers %#x and %#x are not both aligned to the element size %d", r.Send, r.Recv, mask+1)
		}
	}
	if r.Send == 0 || r.Recv == 0 {
		return r.validateNull(rank, n)
	}
	return r.validateOverlap(rank, n)
}

func bad(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalidArgument}, args...)...)
}

// validateNull refuses NULL where bytes are read or written. The bytes of an all_to_all_v_device are not known yet.
func (r *Request) validateNull(rank, n int) error {
	send, recv := r.Extents(rank, n)
	switch {
	case send > 0 && r.Send == 0:
		return bad("the send buffer is NULL")
	case recv > 0 && r.Recv == 0:
		return bad("the receive buffer is NULL")
	}
	return nil
}

// validateOverlap refuses buffers that share memory elsewhere than in place. Parts of an all_to_all_v may lie between
// each other, so they are not compared.
func (r *Request) validateOverlap(rank, n int) error {
	if r.IsInPlace(rank) {
		return nil
	}
	send, recv := r.Extents(rank, n)
	if send == 0 || recv == 0 || int64(r.Recv-r.Send) >= send || int64(r.Send-r.Recv) >= recv {
		return nil
	}
	rule := map[Collective]string{AllGather: "send = recv + rank·count", ReduceScatter: "recv = send + rank·count",
		Gather: "send = recv + root·count", Scatter: "recv = send + root·count"}[r.Collective]
	return bad("the send buffer at %#x, of %d bytes, and the recv buffer at %#x, of %d bytes, overlap; in place is %s",
		r.Send, send, r.Recv, recv, cmp.Or(rule, "send = recv"))
}

func (c *DeviceCounts) validate() error {
	for i, p := range []device.Ptr{c.SendCounts, c.SendDispls, c.RecvCounts, c.RecvDispls} {
		if p == 0 || p&7 != 0 {
			return bad("DeviceCounts.%s is at %#x: want an array of int64 in the device's memory, at a multiple of 8",
				[]string{"SendCounts", "SendDispls", "RecvCounts", "RecvDispls"}[i], p)
		}
	}
	if c.SendElements < 0 || c.RecvElements < 0 {
		return bad("DeviceCounts.SendElements and RecvElements are %d and %d: want lengths, or 0 where they are not known",
			c.SendElements, c.RecvElements)
	}
	return nil
}

func (r *Request) validateV(rank, n int) error {
	for _, s := range []struct {
		name string
		v    []int64
	}{{"SendCounts", r.SendCounts}, {"SendDispls", r.SendDispls}, {"RecvCounts", r.RecvCounts},
		{"RecvDispls", r.RecvDispls}} {
		if len(s.v) != n {
			return bad("%s has %d entries, the communicator %d ranks", s.name, len(s.v), n)
		}
		for p, x := range s.v {
			if x < 0 || x > math.MaxInt64/r.Type.Size()/2 {
				return bad("%s[%d] is %d", s.name, p, x)
			}
		}
	}
	return r.validateAllCounts(rank, n)
}

// validateAllCounts compares AllCounts with this rank's own counts.
func (r *Request) validateAllCounts(rank, n int) error {
	if r.AllCounts == nil {
		return nil
	}
	if len(r.AllCounts) != n*n {
		return bad("AllCounts has %d entries; %d ranks have %d", len(r.AllCounts), n, n*n)
	}
	for i, x := range r.AllCounts {
		if x < 0 || x > math.MaxInt64/r.Type.Size()/2 {
			return bad("AllCounts[%d] is %d", i, x)
		}
	}
	for p := range n {
		if sent, all := r.SendCounts[p], r.AllCounts[rank*n+p]; sent != all {
			return bad("SendCounts[%d] is %d, but AllCounts says that rank %d sends %d elements to rank %d", p, sent, rank, all,
				p)
		}
		if taken, all := r.RecvCounts[p], r.AllCounts[p*n+rank]; taken != all {
			return bad("RecvCounts[%d] is %d, but AllCounts says that rank %d sends %d elements to rank %d", p, taken, p, all,
				rank)
		}
	}
	return nil
}
