package perf

import (
	"fmt"
	"strings"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
)

// Kind is a measured operation: a collective, or the ring of sends and receives that nccl-tests calls sendrecv.
type Kind struct {
	Collective collective.Collective
	// Ring: every rank sends to the next and receives from the previous one. Collective is then Send.
	Ring bool
}

// ParseKind reads the name of a collective, or send_recv.
func ParseKind(s string) (Kind, error) {
	switch s {
	case "send_recv", "sendrecv":
		return Kind{Collective: collective.Send, Ring: true}, nil
	}
	c, err := collective.ParseCollective(s)
	if err == nil && c != collective.Send && c != collective.Recv && c != collective.Barrier {
		return Kind{Collective: c}, nil
	}
	return Kind{}, fmt.Errorf("perf: cannot measure %q: use one of %s, or decode", s, strings.Join(Kinds(), ", "))
}

// Kinds lists the names that ParseKind reads.
func Kinds() []string {
	return []string{"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_to_all_v", "all_to_all_v_device",
		"broadcast", "reduce", "gather", "scatter", "send_recv"}
}

func (k Kind) String() string {
	if k.Ring {
		return "send_recv"
	}
	return k.Collective.String()
}

// hasCounts reports whether every pair of ranks may have another count.
func (k Kind) hasCounts() bool {
	return k.Collective == collective.AllToAllV || k.Collective == collective.AllToAllVDevice
}

func (k Kind) HasOp() bool { return k.Collective.Shape().Reduces }

func (k Kind) HasRoot() bool { return k.Collective.Shape().FromRoot || k.Collective.Shape().ToRoot }

func (k Kind) HasInPlace() bool {
	return !k.Ring && k.Collective != collective.AllToAll && !k.hasCounts()
}

// total reports whether nccl-tests' size column counts the data of all ranks together.
func (k Kind) total() bool {
	return k.hasCounts() || k.Collective.Shape().Spread || k.Collective.Shape().Gathered
}

// BusFactor is busbw divided by algbw for n ranks.
func (k Kind) BusFactor(n int) float64 {
	switch {
	case k.Collective == collective.AllReduce:
		return 2 * float64(n-1) / float64(n)
	case k.total():
		return float64(n-1) / float64(n)
	}
	return 1
}

// geometry is one size of a kind for n ranks: the data that each rank sends and expects.
type geometry struct {
	kind  Kind
	n     int
	typ   datatype.Type
	op    datatype.Op
	root  int
	count int64 // Request.Count; for all_to_all_v the mean number of elements per pair
	size  int64 // nccl-tests' size column, in bytes
}

// newGeometry rounds size down so that it divides among the ranks: to whole elements, and to whole 16-byte lines if it
// is large enough.
func newGeometry(k Kind, n int, t datatype.Type, op datatype.Op, root int, size int64) geometry {
	g := geometry{kind: k, n: n, typ: t, op: op, root: root}
	ts := t.Size()
	if k.total() {
		g.count = size / ts / int64(n)
		if line := 16 / ts; g.count > line {
			g.count -= g.count % line
		}
		g.size = g.count * ts * int64(n)
	} else {
		g.count = size / ts
		g.size = g.count * ts
	}
	return g
}

// weight is the number of counts that rank from sends to rank to in all_to_all_v. Rows and columns of the matrix sum to
// n, so every rank sends and receives as much as in all_to_all, but neighbouring pairs differ: 2, 0, 1, 2, 0, 1, …, and
// 1 for the rest.
func weight(n, from, to int) int64 {
	d := (to - from + n) % n
	if d >= n-n%3 {
		return 1
	}
	return [3]int64{1, 2, 0}[d%3]
}

// pair is the number of elements that from sends to to.
func (g *geometry) pair(from, to int) int64 {
	if g.kind.hasCounts() {
		return g.count * weight(g.n, from, to)
	}
	return g.count
}

// lengths are the lengths of rank's send and receive buffers in elements.
func (g *geometry) lengths(rank int) (send, recv int64) {
	for _, r := range g.requests(rank, collective.Request{}) {
		if g.kind.hasCounts() {
			r.Collective = collective.AllToAllV // the counts are here, too
		}
		in, out := r.Extents(rank, g.n)
		send, recv = send+in/g.typ.Size(), recv+out/g.typ.Size()
	}
	return send, recv
}

// inPlace returns the offsets, in elements, of rank's send and receive buffers in the only buffer of an in-place call,
// and the length of that buffer.
func (g *geometry) inPlace(rank int) (send, recv, length int64) {
	at, whole := int64(rank)*g.count, g.count*int64(g.n)
	switch s := g.kind.Collective.Shape(); {
	case g.kind.HasRoot() && rank != g.root:
	case s.Gathered:
		return at, 0, whole
	case s.Spread:
		return 0, at, whole
	}
	return 0, 0, g.count
}

// segment is a run of the receive buffer and the source of its elements: the send buffer of rank from, or the reduction
// over all ranks, starting at element src.
type segment struct {
	at, count int64
	from      int // -1: reduced
	src       int64
}

// expected lists the segments of rank's receive buffer, in order and without gaps.
func (g *geometry) expected(rank int) []segment {
	shape, src := g.kind.Collective.Shape(), int64(0)
	if shape.Spread {
		src = int64(rank) * g.count
	}
	switch {
	case shape.ToRoot && rank != g.root:
		return nil
	case shape.Reduces:
		return []segment{{0, g.count, -1, src}}
	case shape.FromRoot:
		return []segment{{0, g.count, g.root, src}}
	case g.kind.Ring:
		return []segment{{0, g.count, (rank + g.n - 1) % g.n, 0}}
	}
	var all []segment
	var at int64
	for from := 0; from < g.n; from++ {
		s := segment{at: at, count: g.pair(from, rank), from: from, src: src}
		if g.kind.hasCounts() {
			for to := 0; to < rank; to++ {
				s.src += g.pair(from, to)
			}
		}
		at += s.count
		all = append(all, s)
	}
	return all
}

// requests lists the calls that rank makes. The caller fills in the addresses and the stream: send and recv are the
// starts of the buffers.
func (g *geometry) requests(rank int, r collective.Request) []collective.Request {
	r.Collective, r.Count, r.Type, r.Root = g.kind.Collective, g.count, g.typ, g.root
	switch {
	case g.kind.Ring:
		s, d := r, r
		s.Collective, s.Peer, s.Recv, s.Root = collective.Send, (rank+1)%g.n, 0, 0
		d.Collective, d.Peer, d.Send, d.Root = collective.Recv, (rank+g.n-1)%g.n, 0, 0
		return []collective.Request{s, d}
	case g.kind.hasCounts():
		r.Count = 0
		var sent, received int64
		for p := 0; p < g.n; p++ {
			s, d := g.pair(rank, p), g.pair(p, rank)
			r.SendCounts, r.SendDispls = append(r.SendCounts, s), append(r.SendDispls, sent)
			r.RecvCounts, r.RecvDispls = append(r.RecvCounts, d), append(r.RecvDispls, received)
			sent, received = sent+s, received+d
		}
	}
	return []collective.Request{r}
}

// Sizes lists the sizes from min to max by factor; the last is always max. A factor of at most 1 yields min and max.
func Sizes(minBytes, maxBytes int64, factor float64) []int64 {
	var sizes []int64
	for s := minBytes; s < maxBytes; {
		sizes = append(sizes, s)
		next := int64(float64(s) * factor)
		if next <= s {
			break
		}
		s = next
	}
	return append(sizes, maxBytes)
}
