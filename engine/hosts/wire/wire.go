// Package wire is the interface between the collectives across hosts (engine/hosts), which decide what moves, and the
// code that moves it, which each kind of device has for itself.
//
// # Lifetime and threads
//
// A Wire belongs to one rank of one communicator. Connect and Run are called by one goroutine at a time. Abort and Err
// may be called from any goroutine.
package wire

import (
	"context"
	"slices"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// Wire moves bytes between this rank and ranks of other hosts, on streams.
type Wire interface {
	// Connect makes sure that Run can reach the peers. It may wait for the peers' processes, but never for their calls:
	// a process answers as long as its communicator exists. It returns at once for peers that are connected.
	Connect(ctx context.Context, peers []int) error
	// Run enqueues a phase on s and does not wait for it. The caller orders the streams so that phases run one after the
	// other, in the order of the calls, and does not change p any more. Run exchanges nothing with peers.
	Run(s device.Stream, op Op, p *Phase) error
	// Abort makes running and later phases end with cause. Only the first cause counts.
	Abort(cause error)
	// Err returns the cause of the abort, else the first error of a phase or of a connection, else nil.
	Err() error
	// Drain waits until enqueued phases have ended, or until ctx ends, and returns their first error.
	Drain(ctx context.Context) error
	// Unfinished reports whether enqueued phases have not ended, or were cut short by Abort. It may be called after
	// Close.
	Unfinished() bool
	// Close frees the connections. Work must have ended or have been aborted.
	Close() error
}

// InPlace marks wires on which a phase may send the buffer that it also reduces. The phase must have one reduction, and
// must send exactly its Own buffer, once to each of the reduction's peers. Dst may then be Own.
type InPlace interface{ ReducesInPlace() bool }

// Op is the collective that a phase belongs to, for errors. Tag is the same on all ranks that run the same collective
// with the same arguments, and 0 for messages between pairs, which each rank numbers for itself.
type Op struct {
	Name string
	Seq  uint64
	Tag  uint64
}

// Phase is a set of messages that progress together: none of them waits for another to end. A phase has ended when all
// of its messages have: the source of a send may then be written, and what was received may be read.
//
// Between two ranks, messages of one direction match in order, over all phases. In a phase they are numbered in the
// order of Sends on one side, and in the order of Recvs, then of Reduces, on the other. Sizes must match. The memory
// that a phase sends must not overlap the memory that it writes.
type Phase struct {
	Sends   []Part
	Recvs   []Part
	Reduces []Reduction
	// Counted, if it is not nil, has the sizes and places of Sends and Recvs, which name peers only, each once. Then there
	// are no reductions. Only GPUs have it.
	Counted *Counted
	// Fill, if it is not nil, is called on the stream when the phase begins. It reads memory that earlier work on the
	// stream writes, and may change Sends and Recvs. Only the host device has it.
	Fill func(*Phase) error
}

// IsEmpty reports whether the phase moves nothing.
func (p *Phase) IsEmpty() bool {
	return len(p.Sends)+len(p.Recvs)+len(p.Reduces) == 0
}

// Counted says where the sizes and displacements of messages are when the phase runs: in arrays by rank in device
// memory, in elements of Size bytes. SendElements and RecvElements are the lengths of Send and Recv; 0 is unknown.
type Counted struct {
	Send, Recv                                     device.Ptr
	SendCounts, SendDispls, RecvCounts, RecvDispls device.Ptr
	SendElements, RecvElements, Size               int64
}

// Part is a message to or from a peer: Bytes at Ptr. Bytes may be 0; such a message also synchronizes.
type Part struct {
	Peer  int
	Ptr   device.Ptr
	Bytes int64
}

// Reduction receives Count elements from each of Peers but this rank, and writes x0 op x1 op ... in the order of Peers
// to Dst, where this rank's x is at Own. Ranks that use the same order get the same bits. Dst may be Own. Op is never
// PreMulSum. If Here is not nil, it is the ranks whose x are at Own, in the order of Peers and Stride bytes apart, a
// multiple of 16, and nothing is received from them. An Avg is divided by Ranks. Scaled says that the terms of an Avg
// were scaled (hostreduce.BeforeAverage).
type Reduction struct {
	Peers  []int // includes this rank
	Here   []int
	Stride int64
	Own    device.Ptr
	Dst    device.Ptr
	Count  int64
	Type   datatype.Type
	Op     datatype.Op
	Ranks  int
	Scaled bool
}

// At is where the x of a rank is in this rank's memory, and reports whether it is there. rank is this rank.
func (r *Reduction) At(peer, rank int) (device.Ptr, bool) {
	if r.Here == nil {
		return r.Own, peer == rank
	}
	i := slices.Index(r.Here, peer)
	return r.Own.Add(int64(i) * r.Stride), i >= 0
}
