package cudawire

import (
	"fmt"
	"slices"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/wire"
)

// builder turns phases into parameters of launches. It allocates nothing once its lists have grown.
type builder struct {
	geometry
	rank                             int
	*args                            // a separate object without Go pointers, because C reads it
	tasks, items, reductions, listed int
	chunks                           int64         // the most of any item
	bytes                            int64         // the most of any item
	kernel                           datatype.Type // of the reductions

	count  []int32 // of messages, by peer; 0 between uses
	cursor []int32 // the next item, by peer
	seen   []int   // the peers with messages, in the order of the first
	folded []bool  // by peer: it sends to a reduction of the phase
}

// errTooMany means that a phase does not fit into the parameters of one launch.
var errTooMany = fmt.Errorf("%w: a phase of more than %d messages or %d reductions", collective.ErrUnsupported,
	mostItems, mostReductions)

// build fills the parameters for a phase:
//
//  1. A reduction whose own data is all that the phase sends, to its peers, is also its sender, if a lane has at most
//     one chunk of it: such a task waits for its peers after each chunk. With more chunks the reduction follows the
//     senders.
//  2. The sends to one peer are a task: its lanes have one producer each.
//  3. So are the receives from one peer. Those from a peer that also sends to a reduction come first in the task of
//     the reductions, as the order of messages between two ranks asks.
//  4. All reductions are one task.
func (b *builder) build(p *wire.Phase) error {
	b.tasks, b.items, b.reductions, b.listed, b.chunks, b.bytes = 0, 0, 0, 0, 0, 0
	if itemsOf(p) > mostItems || len(p.Reduces) > mostReductions {
		return errTooMany
	}
	b.counts, b.displs, b.elements = [2]uint64{}, [2]uint64{}, [2]uint64{}
	if p.Counted != nil {
		b.counted(p.Counted, p.Sends, p.Recvs)
		return nil
	}
	moves := b.ownOf(p)
	if moves != ownSent {
		b.messages(p.Sends, kindSend, false)
	}
	for i := range b.items {
		b.item[i].leads = moves
	}
	for i := range p.Reduces {
		for _, q := range p.Reduces[i].Peers {
			b.folded[q] = true
		}
	}
	b.messages(p.Recvs, kindRecv, false)
	first := b.items
	b.messages(p.Recvs, kindRecv, true)
	var err error
	for i := range p.Reduces {
		if e := b.reduce(&p.Reduces[i], moves); e != nil {
			err = e
		}
		for _, q := range p.Reduces[i].Peers {
			b.folded[q] = false
		}
	}
	if b.items > first {
		b.task[b.tasks] = task{uint16(first), uint16(b.items - first)}
		b.tasks++
	}
	b.width = uint32(min(b.lanes, b.chunks))
	return err
}

// ownOf says whether the own data of the phase's only reduction is also what the phase sends, once to each of the
// reduction's peers and nothing else, and how.
func (b *builder) ownOf(p *wire.Phase) uint16 {
	if len(p.Reduces) != 1 || len(p.Sends) != len(p.Reduces[0].Peers)-1 || len(p.Recvs) != 0 {
		return ownStays
	}
	r := &p.Reduces[0]
	n := r.Count * r.Type.Size()
	for i, s := range p.Sends {
		if s.Ptr != r.Own || s.Bytes != n || !slices.Contains(r.Peers, s.Peer) {
			return ownStays
		}
		for _, o := range p.Sends[:i] {
			if o.Peer == s.Peer {
				return ownStays
			}
		}
	}
	if _, chunks := b.geometry.chunks(n); chunks > b.lanes {
		return ownLeads
	}
	return ownSent
}

// messages adds the parts to or from each peer as a task, or, if folded is set, those from peers of reductions without
// a task.
func (b *builder) messages(parts []wire.Part, kind uint16, folded bool) {
	b.seen = b.seen[:0]
	left := func(p *wire.Part) bool { return kind == kindRecv && b.folded[p.Peer] != folded }
	for i := range parts {
		if p := &parts[i]; !left(p) {
			if b.count[p.Peer] == 0 {
				b.seen = append(b.seen, p.Peer)
			}
			b.count[p.Peer]++
		}
	}
	for _, q := range b.seen {
		b.cursor[q] = int32(b.items)
		if !folded {
			b.task[b.tasks] = task{uint16(b.items), uint16(b.count[q])}
			b.tasks++
		}
		b.items += int(b.count[q])
		b.count[q] = 0
	}
	for i := range parts {
		if p := &parts[i]; !left(p) {
			b.item[b.cursor[p.Peer]] = item{at: uint64(p.Ptr), bytes: uint64(p.Bytes), peer: uint32(p.Peer), kind: kind}
			b.cursor[p.Peer]++
			b.measure(p.Bytes)
		}
	}
}

// counted adds messages whose sizes the kernel reads.
func (b *builder) counted(c *wire.Counted, sends, recvs []wire.Part) {
	b.counts = [2]uint64{uint64(c.SendCounts), uint64(c.RecvCounts)}
	b.displs = [2]uint64{uint64(c.SendDispls), uint64(c.RecvDispls)}
	b.elements = [2]uint64{uint64(c.SendElements), uint64(c.RecvElements)}
	for k, parts := range [2][]wire.Part{sends, recvs} {
		at, kind := uint64([2]device.Ptr{c.Send, c.Recv}[k]), uint16(kindSendCounted+k)
		for _, m := range parts {
			b.task[b.tasks] = task{uint16(b.items), 1}
			b.item[b.items] = item{at: at, bytes: uint64(c.Size), peer: uint32(m.Peer), kind: kind}
			b.tasks++
			b.items++
		}
	}
	b.width, b.bytes = uint32(b.lanes), b.lanes*b.slotBytes
}

// itemsOf is the number of items of a phase.
func itemsOf(p *wire.Phase) int { return len(p.Recvs) + len(p.Reduces) + len(p.Sends) }

func (b *builder) measure(bytes int64) {
	_, n := b.geometry.chunks(bytes)
	b.chunks, b.bytes = max(b.chunks, n), max(b.bytes, bytes)
}

func (b *builder) reduce(r *wire.Reduction, moves uint16) error {
	if b.listed+len(r.Peers) > mostPeers {
		return fmt.Errorf("%w: reductions of more than %d operands in one launch", collective.ErrUnsupported, mostPeers)
	}
	if b.kernel = r.Type; r.Op == datatype.PreMulSum {
		return fmt.Errorf("%w: a wire does not scale", collective.ErrInvalidArgument)
	}
	op := uint32(r.Op)
	if r.Type.Unsigned() {
		op |= unsignedBit
	}
	ranks := uint32(r.Ranks)
	if r.Scaled {
		ranks |= scaledTerms
	}
	x := &b.reduction[b.reductions]
	*x = reduction{own: uint64(r.Own), op: op, ranks: ranks, first: uint16(b.listed),
		count: uint16(len(r.Peers)), moves: moves}
	for _, q := range r.Peers {
		b.peers[b.listed] = uint16(q)
		if at, here := r.At(q, b.rank); here {
			b.peers[b.listed] = localPeer
			if r.Stride > 0 {
				b.peers[b.listed] |= uint16(int64(at-r.Own) / r.Stride)
			}
		}
		b.listed++
	}
	n := r.Count * r.Type.Size()
	if r.Here != nil && r.Stride != (n+15)&^15 {
		return fmt.Errorf("%w: operands of %d bytes are %d bytes apart", collective.ErrInvalidArgument, n, r.Stride)
	}
	b.item[b.items] = item{at: uint64(r.Dst), bytes: uint64(n), peer: uint32(b.reductions), kind: kindReduce}
	b.items++
	b.reductions++
	b.measure(n)
	return nil
}

// few copies the parameters to the shorter list of a smaller launch, if they fit.
func (b *builder) few(to *fewArgs) bool {
	if b.items > fewItems || b.tasks > fewItems || b.reductions > fewReductions || b.listed > fewPeers {
		return false
	}
	to.head = b.head
	copy(to.task[:], b.task[:b.tasks])
	copy(to.item[:], b.item[:b.items])
	copy(to.reduction[:], b.reduction[:b.reductions])
	copy(to.peers[:], b.peers[:b.listed])
	return true
}
