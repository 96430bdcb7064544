package algorithm

import (
	"fmt"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// Collective is the kind of operation of a request.
type Collective uint8

// The collectives. Counts and buffer sizes follow NCCL (see Request).
const (
	AllReduce Collective = iota + 1
	AllGather
	ReduceScatter
	AllToAll
	AllToAllV
	Broadcast
	Reduce
	Gather
	Scatter
	Send
	Recv
	Barrier
	AllToAllVDevice // with counts in device memory
	numCollectives
)

// NumCollectives is one more than the largest Collective.
const NumCollectives = numCollectives

var collectiveNames = [numCollectives]string{"", "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_to_all_v", "broadcast", "reduce",
	"gather", "scatter", "send", "recv", "barrier", "all_to_all_v_device"}

// Valid reports whether c is one of the named collectives.
func (c Collective) Valid() bool { return c > 0 && c < numCollectives }

// String returns a name like "all_reduce".
func (c Collective) String() string {
	if !c.Valid() {
		return fmt.Sprintf("Collective(%d)", uint8(c))
	}
	return collectiveNames[c]
}

// ParseCollective parses a name like "all_reduce". It ignores case, "_" and "-": "AllReduce" and "all-reduce" are
// accepted too.
func ParseCollective(s string) (Collective, error) {
	for i, n := range collectiveNames {
		if i > 0 && (n == s || squash(n) == squash(s)) {
			return Collective(i), nil
		}
	}
	return 0, fmt.Errorf("algorithm: unknown collective %q: use one of %v", s, collectiveNames[1:])
}

func squash(s string) string {
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '_' || c == '-' {
			continue
		}
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		b = append(b, c)
	}
	return string(b)
}

// Request is one collective call of one rank, as a value. Sizes are in elements of Type; R is the number of ranks.
//
//	all_reduce, broadcast, reduce     send Count, recv Count (reduce: recv only at Root; broadcast: send only at Root)
//	all_gather, gather                send Count, recv Count·R (gather: recv only at Root)
//	reduce_scatter, scatter           send Count·R, recv Count (scatter: send only at Root)
//	all_to_all                        send Count·R, recv Count·R
//	all_to_all_v                      SendCounts, SendDispls, RecvCounts, RecvDispls: R entries each, copied at the call
//	all_to_all_v_device               DeviceCounts, read when the operation runs
//	send, recv                        Count elements to or from Peer
//	barrier                           nothing
//
// In place is as in NCCL: Send == Recv; all_gather: Send == Recv + rank·Count; reduce_scatter: Recv == Send +
// rank·Count; gather: Send == Recv + Root·Count at Root; scatter: Recv == Send + Root·Count at Root.
type Request struct {
	Collective Collective
	Send, Recv device.Ptr
	Count      int64
	Type       datatype.Type
	Op         datatype.Op
	Root       int // broadcast, reduce, gather, scatter
	Peer       int // send, recv

	// Scalar is the factor of datatype.PreMulSum: an element of Type in memory order (little endian) when ScalarPtr is
	// 0, otherwise ScalarPtr is read on the device when the collective runs.
	Scalar    [8]byte
	ScalarPtr device.Ptr

	SendCounts, SendDispls, RecvCounts, RecvDispls []int64

	DeviceCounts DeviceCounts // all_to_all_v_device

	Stream device.Stream
}

// DeviceCounts are the arrays of an all_to_all_v_device. Each has R int64, by rank, in elements, at a multiple of 8
// bytes, in memory that the device can read. They are read when the operation runs on its stream and must not change
// until it has ended.
type DeviceCounts struct {
	SendCounts, SendDispls, RecvCounts, RecvDispls device.Ptr

	// SendElements and RecvElements are the lengths of send and recv in elements. The arrays are checked against them
	// when the operation runs; 0 is unknown and disables the check.
	SendElements, RecvElements int64
}

// Bytes is Count in bytes.
func (r *Request) Bytes() int64 { return r.Count * r.Type.Size() }
