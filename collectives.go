package goccl

import (
	"context"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// The collectives. Counts are in elements; buffer sizes and in-place rules are those of algorithm.Request. Each call enqueues on s and
// returns; s nil means the device's default stream, which on the host device is synchronous.

// AllReduce combines count elements of every rank's send with op and leaves the result in every rank's recv, the same bits everywhere.
func (c *Comm) AllReduce(send, recv device.Ptr, count int64, t datatype.Type, op datatype.Op, s device.Stream) error {
	return c.one(algorithm.Request{Collective: algorithm.AllReduce, Send: send, Recv: recv, Count: count, Type: t, Op: op, Stream: s})
}

// AllGather puts count elements of rank r's send at recv + r·count, on every rank.
func (c *Comm) AllGather(send, recv device.Ptr, count int64, t datatype.Type, s device.Stream) error {
	return c.one(algorithm.Request{Collective: algorithm.AllGather, Send: send, Recv: recv, Count: count, Type: t, Stream: s})
}

// ReduceScatter combines the ranks' sends (count·R elements each) and leaves slice r, count elements, in rank r's recv.
func (c *Comm) ReduceScatter(send, recv device.Ptr, count int64, t datatype.Type, op datatype.Op, s device.Stream) error {
	return c.one(algorithm.Request{Collective: algorithm.ReduceScatter, Send: send, Recv: recv, Count: count, Type: t, Op: op, Stream: s})
}

// AllToAll sends slice p (count elements) of send to rank p, which puts it at slice r of its recv, r being this rank.
func (c *Comm) AllToAll(send, recv device.Ptr, count int64, t datatype.Type, s device.Stream) error {
	return c.one(algorithm.Request{Collective: algorithm.AllToAll, Send: send, Recv: recv, Count: count, Type: t, Stream: s})
}

// AllToAllV is AllToAll with counts and displacements of its own for every peer, in elements; each slice has R entries and is copied
// before the call returns. What this rank sends to p must be what p receives from it.
func (c *Comm) AllToAllV(send device.Ptr, sendCounts, sendDispls []int64, recv device.Ptr, recvCounts, recvDispls []int64, t datatype.Type, s device.Stream) error {
	return c.one(algorithm.Request{Collective: algorithm.AllToAllV, Send: send, Recv: recv, Type: t, Stream: s,
		SendCounts: sendCounts, SendDispls: sendDispls, RecvCounts: recvCounts, RecvDispls: recvDispls})
}

// DeviceCounts are the counts and displacements of an AllToAllVDevice: arrays of R int64 each, one element for each rank, in elements, at multiples of 8
// bytes, in memory that the device can read: the GPU's own on CUDA, any of this process on the host device.
type DeviceCounts = algorithm.DeviceCounts

// AllToAllVDevice is AllToAllV with counts and displacements in the device's memory. They are read when the operation runs on s, not at the call: so a
// kernel before it on s may compute them, without the host's knowing, and a captured graph reads them anew each time it is replayed. They must stay as
// they are until the operation has ended.
//
// All ranks call it together: AllToAllV does not meet it. What this rank sends to p must be what p receives from it, zero included; otherwise both get
// ErrMismatch, which names the other, once the operation has run. Negative counts are taken for 0. Where the lengths of send and recv are given, a message that
// lies outside of them is not moved, and ErrInvalidArgument; where they are not, it reads and writes what is there.
func (c *Comm) AllToAllVDevice(send, recv device.Ptr, counts DeviceCounts, t datatype.Type, s device.Stream) error {
	return c.one(algorithm.Request{Collective: algorithm.AllToAllVDevice, Send: send, Recv: recv, Type: t, DeviceCounts: counts, Stream: s})
}

// Broadcast copies count elements of root's send to every rank's recv.
func (c *Comm) Broadcast(send, recv device.Ptr, count int64, t datatype.Type, root int, s device.Stream) error {
	return c.one(algorithm.Request{Collective: algorithm.Broadcast, Send: send, Recv: recv, Count: count, Type: t, Root: root, Stream: s})
}

// Reduce combines the ranks' sends and leaves the result in root's recv.
func (c *Comm) Reduce(send, recv device.Ptr, count int64, t datatype.Type, op datatype.Op, root int, s device.Stream) error {
	return c.one(algorithm.Request{Collective: algorithm.Reduce, Send: send, Recv: recv, Count: count, Type: t, Op: op, Root: root, Stream: s})
}

// Gather puts count elements of rank r's send at recv + r·count on root.
func (c *Comm) Gather(send, recv device.Ptr, count int64, t datatype.Type, root int, s device.Stream) error {
	return c.one(algorithm.Request{Collective: algorithm.Gather, Send: send, Recv: recv, Count: count, Type: t, Root: root, Stream: s})
}

// Scatter puts slice r (count elements) of root's send in rank r's recv.
func (c *Comm) Scatter(send, recv device.Ptr, count int64, t datatype.Type, root int, s device.Stream) error {
	return c.one(algorithm.Request{Collective: algorithm.Scatter, Send: send, Recv: recv, Count: count, Type: t, Root: root, Stream: s})
}

// Send sends count elements to peer, which must Recv as many. To exchange in both directions at once, Submit both in one call.
func (c *Comm) Send(buf device.Ptr, count int64, t datatype.Type, peer int, s device.Stream) error {
	return c.one(algorithm.Request{Collective: algorithm.Send, Send: buf, Count: count, Type: t, Peer: peer, Stream: s})
}

// Recv receives count elements from peer.
func (c *Comm) Recv(buf device.Ptr, count int64, t datatype.Type, peer int, s device.Stream) error {
	return c.one(algorithm.Request{Collective: algorithm.Recv, Recv: buf, Count: count, Type: t, Peer: peer, Stream: s})
}

// Barrier makes later work on s wait until every rank's stream got here.
func (c *Comm) Barrier(s device.Stream) error {
	return c.one(algorithm.Request{Collective: algorithm.Barrier, Stream: s})
}

// Synchronize waits for all work on s and returns its error, or the communicator's.
func (c *Comm) Synchronize(ctx context.Context, s device.Stream) error {
	if err := s.Synchronize(ctx); err != nil {
		return err
	}
	return c.engine.Err()
}
