package collective

import (
	"fmt"
	"slices"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/setting"
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

// Operations that are no Collective of a Request, in errors and records: the fused all-reduces of package engine/fused,
// and the operations of package engine/moe.
const (
	AllReduceFusion = numCollectives + 1 + iota
	MoENotify
	MoEDispatch
	MoECombine
)

var otherNames = [...]string{"all_reduce_fusion", "moe_notify", "moe_dispatch", "moe_combine"}

var collectiveNames = [numCollectives]string{"", "all_reduce", "all_gather", "reduce_scatter", "all_to_all",
	"all_to_all_v", "broadcast", "reduce",
	"gather", "scatter", "send", "recv", "barrier", "all_to_all_v_device"}

// Valid reports whether c is one of the named collectives.
func (c Collective) Valid() bool { return c > 0 && c < numCollectives }

// String returns a name like "all_reduce".
func (c Collective) String() string {
	if i := int(c) - int(AllReduceFusion); i >= 0 && i < len(otherNames) {
		return otherNames[i]
	}
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
	return 0, fmt.Errorf("collective: unknown collective %q: use one of %v", s, collectiveNames[1:])
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
// rank·Count; gather: Send == Recv + Root·Count at Root; scatter: Recv == Send + Root·Count at Root. Other overlaps are
// refused; all_to_all_v leaves them undefined. An all_to_all is in place on all ranks, or on none.
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

	// AllCounts may say what every rank of an all_to_all_v sends: AllCounts[s·R+d] elements from rank s to rank d.
	// Either all ranks give the same R·R numbers or none does. Small messages between hosts can then be sent together.
	AllCounts []int64

	DeviceCounts DeviceCounts // all_to_all_v_device

	// Algorithm names the algorithm that runs the request, if the engine has a Forceable one of that name for the
	// collective; otherwise the engine chooses. All ranks must give the same name.
	Algorithm string
	// MinCTAs and MaxCTAs bound the thread blocks of the request's kernel on GPUs, within the limits of the
	// communicator; 0 adds no bound. All ranks must give the same bounds.
	MinCTAs, MaxCTAs uint16
	// CTAPolicy is the policy of this request; CTAPolicyUnset is the communicator's. All ranks must give the same.
	CTAPolicy CTAPolicy
	// Exact is the level of this request, if that is further than the communicator's. All ranks must give the same.
	Exact Exact

	// PartOf, if it is not 0, is the collective that an engine composes of this request and others. Errors name it.
	PartOf Collective

	Stream device.Stream
}

// Matrix sets AllCounts, and SendCounts and RecvCounts of this rank from it.
func (r *Request) Matrix(counts []int64, rank, n int) error {
	if len(counts) != n*n {
		return bad("the matrix of counts has %d entries; %d ranks have %d", len(counts), n, n*n)
	}
	r.AllCounts, r.SendCounts = counts, counts[rank*n:(rank+1)*n]
	r.RecvCounts = make([]int64, n)
	for p := range n {
		r.RecvCounts[p] = counts[p*n+rank]
	}
	return nil
}

// Called is the collective that the caller knows: the collective that r implements a part of, or r's own.
func (r *Request) Called() Collective {
	if r.PartOf != 0 {
		return r.PartOf
	}
	return r.Collective
}

// CTAPolicy says how far collectives spare the SMs of a GPU.
type CTAPolicy = setting.CTAPolicy

// The policies. Unset is the communicator's policy, and of a communicator Default: the fastest launch. Efficiency
// takes few SMs, at little loss of speed. Zero takes copy engines wherever they can do the work, even if slower.
const (
	CTAPolicyUnset      = setting.CTAPolicyUnset
	CTAPolicyDefault    = setting.CTAPolicyDefault
	CTAPolicyEfficiency = setting.CTAPolicyEfficiency
	CTAPolicyZero       = setting.CTAPolicyZero
)

// Exact says on what the bits of a reduction may depend.
type Exact = setting.Exact

// The promises. Each includes those before it.
const (
	ExactRun       = setting.ExactRun       // the same call gives the same bits
	ExactBatch     = setting.ExactBatch     // whatever the count, the position, the alignment and the algorithm
	ExactPlacement = setting.ExactPlacement // whichever ranks share a host
	ExactReference = setting.ExactReference // the sum in rank order, rounded once
)

// Ordered reports whether the bits of r depend on the order in which the ranks' elements are reduced.
func (r *Request) Ordered() bool { return r.Collective.Shape().Reduces && r.Type >= datatype.Float16 }

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

// Signature is a hash that differs if two ranks run different collectives. It depends on the fields alone, so that
// processes agree.
func (r *Request) Signature() uint64 {
	h := uint64(r.Count)
	h = (h ^ h>>32 ^ uint64(r.Root)<<40) * 0x9e3779b97f4a7c15
	h ^= h>>29 ^ uint64(r.Collective)<<16 ^ uint64(r.Type)<<8 ^ uint64(r.Op)
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>32
}

// PointToPoint reports whether r is a send or a receive.
func (r *Request) PointToPoint() bool { return r.Collective == Send || r.Collective == Recv }

// Batches calls run for the requests that run together: each collective alone, and consecutive sends and receives as
// one. seq is the number of the first request; run gets the number of the first request of its batch. The first error
// ends it.
func Batches(seq uint64, reqs []Request, run func(seq uint64, batch []Request) error) error {
	for i := 0; i < len(reqs); {
		k := i + 1
		for reqs[i].PointToPoint() && k < len(reqs) && reqs[k].PointToPoint() {
			k++
		}
		if err := run(seq+uint64(i), reqs[i:k]); err != nil {
			return err
		}
		i = k
	}
	return nil
}

// Joined enqueues the work of a batch on the stream of its first request. The other streams of the batch come before
// it and wait for it.
func Joined(batch []Request, work func(s device.Stream) error) error {
	s := batch[0].Stream
	var others []device.Stream
	for i := range batch {
		if o := batch[i].Stream; o != s && !slices.Contains(others, o) {
			others = append(others, o)
		}
	}
	for _, o := range others {
		if err := device.Join(s, o); err != nil {
			return err
		}
	}
	if err := work(s); err != nil {
		return err
	}
	for _, o := range others {
		if err := device.Join(o, s); err != nil {
			return err
		}
	}
	return nil
}
