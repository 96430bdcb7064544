package goccl

import (
	"context"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// The collectives. Counts are in elements; collective.Request defines buffer sizes and in-place rules, and a call that
// breaks them is refused. Each call enqueues on s and returns. A nil s means the device's default stream, which is
// synchronous on the host device.

// AllReduce reduces count elements of every rank's send with op and writes the result to every rank's recv, which
// may be send. All ranks get bitwise identical results.
func (c *Comm) AllReduce(send, recv device.Ptr, count int64, t datatype.Type, op datatype.Op, s device.Stream) error {
	return c.one(collective.Request{Collective: collective.AllReduce, Send: send, Recv: recv, Count: count, Type: t,
		Op: op, Stream: s})
}

// AllGather copies count elements of every rank r's send to recv + r·count, on every rank.
func (c *Comm) AllGather(send, recv device.Ptr, count int64, t datatype.Type, s device.Stream) error {
	return c.one(collective.Request{Collective: collective.AllGather, Send: send, Recv: recv, Count: count, Type: t,
		Stream: s})
}

// ReduceScatter reduces the ranks' sends (count·R elements each) with op and writes slice r (count elements) to rank
// r's recv.
func (c *Comm) ReduceScatter(send, recv device.Ptr, count int64, t datatype.Type, op datatype.Op,
	s device.Stream) error {
	return c.one(collective.Request{Collective: collective.ReduceScatter, Send: send, Recv: recv, Count: count, Type: t,
		Op: op, Stream: s})
}

// AllToAll sends slice p (count elements) of send to rank p. Rank p receives it in slice r of its recv, where r is this
// rank.
func (c *Comm) AllToAll(send, recv device.Ptr, count int64, t datatype.Type, s device.Stream) error {
	return c.one(collective.Request{Collective: collective.AllToAll, Send: send, Recv: recv, Count: count, Type: t,
		Stream: s})
}

// AllToAllV is AllToAll with separate counts and displacements for every peer, in elements. Each slice has R entries
// and is copied before the call returns. The count that this rank sends to p must equal the count that p receives from
// this rank.
func (c *Comm) AllToAllV(send device.Ptr, sendCounts, sendDispls []int64,
	recv device.Ptr, recvCounts, recvDispls []int64, t datatype.Type, s device.Stream) error {
	return c.one(collective.Request{Collective: collective.AllToAllV, Send: send, Recv: recv, Type: t, Stream: s,
		SendCounts: sendCounts, SendDispls: sendDispls, RecvCounts: recvCounts, RecvDispls: recvDispls})
}

// AllToAllVMatrix is AllToAllV where each rank knows what all ranks send: counts[s·R+d] elements from rank s to rank d,
// the same R·R numbers on all ranks. Across hosts this lets the ranks of a host send their small messages together. It
// does not match a peer's AllToAllV.
func (c *Comm) AllToAllVMatrix(send device.Ptr, sendDispls []int64, recv device.Ptr, recvDispls []int64,
	counts []int64, t datatype.Type, s device.Stream) error {
	r := collective.Request{Collective: collective.AllToAllV, Send: send, Recv: recv, Type: t, Stream: s,
		SendDispls: sendDispls, RecvDispls: recvDispls}
	if err := r.Matrix(counts, c.rank, c.size); err != nil {
		return c.group.Fault(r.Collective.String(), -1, err)
	}
	return c.one(r)
}

// DeviceCounts holds the counts and displacements of an AllToAllVDevice: arrays of R int64 each, one entry per rank, in
// elements. The arrays are aligned to 8 bytes and in memory that the device can read: the GPU's own memory on CUDA, any
// memory of this process on the host device.
type DeviceCounts = collective.DeviceCounts

// AllToAllVDevice is AllToAllV with counts and displacements in device memory. They are read when the operation runs on
// s, not at the call. So an earlier kernel on s may compute them without the host's involvement, and a captured graph
// reads them again at each launch. They must not change until the operation has ended.
//
// All ranks must call it together; it does not match a peer's AllToAllV. The count that this rank sends to p must equal
// the count that p receives from this rank, zero included. Otherwise both ranks get ErrMismatch, which names the other
// rank, after the operation has run. Negative counts are treated as 0. If the lengths of send and recv are given, a
// message outside of them is not moved and yields ErrInvalidArgument. If they are not given, bounds are not checked.
func (c *Comm) AllToAllVDevice(send, recv device.Ptr, counts DeviceCounts, t datatype.Type, s device.Stream) error {
	return c.one(collective.Request{Collective: collective.AllToAllVDevice, Send: send, Recv: recv, Type: t,
		DeviceCounts: counts, Stream: s})
}

// Broadcast copies count elements of root's send to every rank's recv.
func (c *Comm) Broadcast(send, recv device.Ptr, count int64, t datatype.Type, root int, s device.Stream) error {
	return c.one(collective.Request{Collective: collective.Broadcast, Send: send, Recv: recv, Count: count, Type: t,
		Root: root, Stream: s})
}

// Reduce reduces the ranks' sends with op and writes the result to root's recv.
func (c *Comm) Reduce(send, recv device.Ptr, count int64, t datatype.Type, op datatype.Op, root int,
	s device.Stream) error {
	return c.one(collective.Request{Collective: collective.Reduce, Send: send, Recv: recv, Count: count, Type: t, Op: op,
		Root: root, Stream: s})
}

// Gather copies count elements of every rank r's send to recv + r·count on root.
func (c *Comm) Gather(send, recv device.Ptr, count int64, t datatype.Type, root int, s device.Stream) error {
	return c.one(collective.Request{Collective: collective.Gather, Send: send, Recv: recv, Count: count, Type: t,
		Root: root, Stream: s})
}

// Scatter copies slice r (count elements) of root's send to rank r's recv.
func (c *Comm) Scatter(send, recv device.Ptr, count int64, t datatype.Type, root int, s device.Stream) error {
	return c.one(collective.Request{Collective: collective.Scatter, Send: send, Recv: recv, Count: count, Type: t,
		Root: root, Stream: s})
}

// Send sends count elements to peer, which must call Recv with the same count. To exchange in both directions at once,
// Submit both requests in one call.
func (c *Comm) Send(buf device.Ptr, count int64, t datatype.Type, peer int, s device.Stream) error {
	return c.one(collective.Request{Collective: collective.Send, Send: buf, Count: count, Type: t, Peer: peer, Stream: s})
}

// Recv receives count elements from peer.
func (c *Comm) Recv(buf device.Ptr, count int64, t datatype.Type, peer int, s device.Stream) error {
	return c.one(collective.Request{Collective: collective.Recv, Recv: buf, Count: count, Type: t, Peer: peer, Stream: s})
}

// Barrier makes later work on s wait until the stream of every rank has reached the barrier.
func (c *Comm) Barrier(s device.Stream) error {
	return c.one(collective.Request{Collective: collective.Barrier, Stream: s})
}

// Synchronize waits for all work on s; nil is the default stream, which on the host device never has work. It returns
// the stream's error, or else the communicator's.
func (c *Comm) Synchronize(ctx context.Context, s device.Stream) error {
	if s == nil {
		if c.stream0 == nil {
			return c.AsyncError()
		}
		s = c.stream0
	}
	if err := s.Synchronize(ctx); err != nil {
		return err
	}
	return c.AsyncError()
}
