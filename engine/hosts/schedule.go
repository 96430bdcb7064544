package hosts

import (
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/internal/hostreduce"
)

// chunk is what one rank does for a part of a collective: work inside the host, messages between hosts, work inside the
// host. Several chunks are pipelined: the network carries one while the host works on the next. The messages and
// the work beside them do not depend on each other.
type chunk struct {
	before []work
	phases []*wire.Phase
	beside []work
	after  []work
}

// work is done inside the host, one item after the other.
type work struct {
	copies []copying
	// scales are requests of the engine of this rank.
	scales []collective.Request
	// reqs are requests of the local communicator, enqueued together: roots and peers are local ranks.
	reqs []collective.Request
}

type copying struct {
	dst, src device.Ptr
	bytes    int64
}

// builder makes the chunks of one request for one rank. It does no I/O: tests run it without a device.
type builder struct {
	*topology
	r    *collective.Request
	elem int64
	// scratch are two areas of the same size, which chunks use in turn.
	scratch [2]device.Ptr
	room    int64
	inPlace bool // the wire is a wire.InPlace
	crowded bool // the work of a chunk inside the host and the network's do not run at the same time
	exact   bool // see inRankOrder
	rules   *rules
	chunks  []*chunk
}

// Sizes in bytes. A collective of up to leaderBytes goes over one rank of each host. A chunk of a larger one is the
// quarter of the message, at least leastChunk, and what fits into the scratch. If the wire is a wire.InPlace, on GPUs,
// it is at least leastGPUChunk: work inside a host is fast there beside the network, and each chunk costs launches.
const (
	// An all-reduce of up to wholeBytes goes as a whole over every rail, if the wire is a wire.InPlace.
	wholeBytes    = 64 << 10
	leaderBytes   = 16 << 10
	leastChunk    = 512 << 10
	leastGPUChunk = 8 << 20
)

// build returns the chunks of a request. Every rank must make the same number.
func (b *builder) build() ([]*chunk, error) {
	if b.exact {
		b.inRankOrder()
		return b.chunks, nil
	}
	switch b.r.Collective {
	case collective.AllReduce:
		b.allReduce()
	case collective.Reduce:
		b.reduce()
	case collective.Broadcast:
		b.broadcast()
	case collective.ReduceScatter:
		b.reduceScatter()
	case collective.AllGather:
		b.allGather()
	case collective.Gather, collective.Scatter:
		b.rooted()
	case collective.AllToAll:
		b.allToAll()
	case collective.Barrier:
		b.barrier()
	default:
		return nil, fmt.Errorf("%w: %v across hosts", collective.ErrUnsupported, b.r.Collective)
	}
	return b.chunks, nil
}

// next begins a chunk and returns it with its scratch.
func (b *builder) next() (*chunk, device.Ptr) {
	c := &chunk{}
	at := b.scratch[len(b.chunks)%2]
	b.chunks = append(b.chunks, c)
	return c, at
}

// pieces divides count elements into chunks. Each has at most the given number of elements.
func pieces(count, most int64, f func(off, n int64)) {
	if count == 0 {
		f(0, 0)
	}
	for off := int64(0); off < count; off += most {
		f(off, min(most, count-off))
	}
}

// perChunk is the number of elements of a chunk, of which the scratch holds copies copies.
func (b *builder) perChunk(count, copies int64) int64 {
	least := int64(leastChunk)
	if b.inPlace {
		least = leastGPUChunk
	}
	bytes := min(max(count*b.elem/4, least), b.room)
	return max(1, min(bytes, b.room/max(1, copies))/b.elem/64*64, min(count, b.room/max(1, copies)/b.elem, 64))
}

// perPhase is perChunk, or everything where hosts have one rank each and need no scratch: there is nothing to do inside
// a host while the network carries the first chunk.
func (b *builder) perPhase(count, copies int64) int64 {
	if b.inPlace && b.rails == 1 && !b.premultiplied() {
		return max(1, count)
	}
	return b.perChunk(count, copies)
}

// request is a request of the local communicator with the type of b's.
func (b *builder) request(c collective.Collective, send, recv device.Ptr, count int64) collective.Request {
	return collective.Request{Collective: c, Send: send, Recv: recv, Count: count, Type: b.r.Type,
		PartOf: b.r.Called(), MinCTAs: b.r.MinCTAs, MaxCTAs: b.r.MaxCTAs, CTAPolicy: b.r.CTAPolicy,
		Exact: b.r.Exact}
}

// partial is a local reduction: other hosts have the other terms. Each rank's factor is applied at the beginning. An
// average of integers is divided at the end. Floats are averaged inside each host and then over hosts, because a host's
// sum may be infinite; where hosts have different numbers of ranks, the terms of the sum are scaled.
func (b *builder) partial(c collective.Collective, send, recv device.Ptr, count int64) collective.Request {
	r := b.request(c, send, recv, count)
	r.Op, r.Scalar, r.ScalarPtr = b.r.Op, b.r.Scalar, b.r.ScalarPtr
	switch scalar, scaled := b.scaled(); {
	case scaled:
		r.Op, r.Scalar = datatype.PreMulSum, scalar
	case r.Op == datatype.Avg && !b.averaged():
		r.Op = datatype.Sum
	}
	return r
}

// averaged reports whether an average is one of the hosts' averages.
func (b *builder) averaged() bool { return b.r.Type >= datatype.Float16 && b.isEven() }

// scaled returns the factor of the terms of an average, and reports whether there is one.
func (b *builder) scaled() (factor [8]byte, ok bool) {
	if b.r.Op != datatype.Avg || b.averaged() {
		return factor, false
	}
	return hostreduce.BeforeAverage(b.r.Type, b.size())
}

// premultiplied reports whether ranks change their input before the reduction.
func (b *builder) premultiplied() bool {
	_, scaled := b.scaled()
	return scaled || b.r.Op == datatype.PreMulSum
}

// total is the reduction of the hosts' partial results. peers are by host and include this rank.
func (b *builder) total(peers []int, own, dst device.Ptr, count int64) wire.Reduction {
	op := b.r.Op
	if op == datatype.PreMulSum {
		op = datatype.Sum
	}
	ranks := b.size()
	if b.averaged() {
		ranks = len(peers)
	}
	_, scaled := b.scaled()
	return wire.Reduction{Peers: peers, Own: own, Dst: dst, Count: count, Type: b.r.Type, Op: op, Ranks: ranks,
		Scaled: scaled}
}

// alone reports whether this rank's input needs no local reduction: it is the only rank of its host.
func (b *builder) alone() bool { return len(b.mine()) == 1 && !b.premultiplied() }

func send(peer int, at device.Ptr, bytes int64) wire.Part {
	return wire.Part{Peer: peer, Ptr: at, Bytes: bytes}
}

// do adds requests that are enqueued together.
func do(list *[]work, reqs ...collective.Request) {
	if len(reqs) > 0 {
		*list = append(*list, work{reqs: reqs})
	}
}

// phase adds a phase, unless it is empty.
func (c *chunk) phase(p *wire.Phase) {
	if !p.IsEmpty() {
		c.phases = append(c.phases, p)
	}
}

func (b *builder) barrier() {
	c, at := b.next()
	one := collective.Request{Collective: collective.Barrier}
	do(&c.before, one)
	p := &wire.Phase{}
	if b.own() == 0 {
		b.others(func(h int) {
			p.Sends = append(p.Sends, send(b.onRail(h, 0), at, 0))
			p.Recvs = append(p.Recvs, send(b.onRail(h, 0), at, 0))
		})
	}
	c.phase(p)
	do(&c.after, one)
}
