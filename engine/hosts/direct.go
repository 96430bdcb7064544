package hosts

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/wire"
)

// Where there is no table: on GPUs small all-gathers send what a host has gathered over every rail, and an all-to-all
// of few ranks goes straight between each two of them.
const (
	gatheredBytes = 64 << 10 // of the result
	directRanks   = 32
)

// gatherFirst is an all-gather inside each host, whose result each rank sends to the other ranks of its rail.
func (b *builder) gatherFirst() {
	c, _ := b.next()
	bytes := b.r.Count * b.elem
	of := func(h int) device.Ptr { return b.r.Recv.Add(int64(b.members[h][0]) * bytes) }
	do(&c.before, b.request(collective.AllGather, b.r.Send, of(b.here()), b.r.Count))
	p, n := &wire.Phase{}, int64(b.rails)*bytes
	b.others(func(h int) {
		p.Sends = append(p.Sends, send(b.onRail(h, b.own()), of(b.here()), n))
		p.Recvs = append(p.Recvs, send(b.onRail(h, b.own()), of(h), n))
	})
	c.phase(p)
}

// straight reports whether an all-to-all is allToAllDirect. It is the same on all ranks.
func (b *builder) straight() bool {
	return b.r.Collective == collective.AllToAll && b.choose(b.r.Count*b.elem*int64(b.size())) == namePairs
}

// These bound the messages of a phase that combines several chunks or has reductions, and its reductions: not more than
// fit into a launch of engine/hosts/cudawire.
const mostTogether, mostReduces = 64, 8

// allToAllDirect, for each chunk of every block: messages between each two ranks, by the local engine or the wire. An
// all-to-all in place sends copies.
func (b *builder) allToAllDirect() {
	count, inPlace := b.r.Count, b.r.Send == b.r.Recv
	most := b.perChunk(count, int64(b.size()))
	if n := 2 * (count + most - 1) / most * int64(b.size()-len(b.mine())); !inPlace && !b.crowded && n <= mostTogether {
		b.allToAllTogether(most)
		return
	}
	pieces(count, most, func(off, n int64) {
		c, saved := b.next()
		bytes := n * b.elem
		in, out := b.blocksFrom(off)
		if inPlace {
			in = b.save(c, in, saved, bytes)
		}
		p := &wire.Phase{}
		do(&c.before, b.inside(nil, in, out, n)...)
		b.outside(p, in, out, n)
		c.phase(p)
	})
}

// allToAllTogether has the messages of all chunks in one phase, because the network is idle between two. Messages
// inside the host run at the same time. The messages are the same in place and not, so ranks of both kinds understand
// each other.
func (b *builder) allToAllTogether(most int64) {
	p := &wire.Phase{}
	var group []collective.Request
	pieces(b.r.Count, most, func(off, n int64) {
		in, out := b.blocksFrom(off)
		group = b.inside(group, in, out, n)
		b.outside(p, in, out, n)
	})
	c, _ := b.next()
	c.phase(p)
	do(&c.beside, group...)
}

// blocksFrom are the blocks for and of each rank, from an offset in them on.
func (b *builder) blocksFrom(off int64) (in, out func(p int) device.Ptr) {
	at := func(base device.Ptr) func(p int) device.Ptr {
		return func(p int) device.Ptr { return base.Add((int64(p)*b.r.Count + off) * b.elem) }
	}
	return at(b.r.Send), at(b.r.Recv)
}

// inside adds the messages with ranks of this host.
func (b *builder) inside(group []collective.Request, in, out func(p int) device.Ptr, n int64) []collective.Request {
	for _, q := range b.mine() {
		group = append(group, b.message(collective.Send, q, in(q), n), b.message(collective.Recv, q, out(q), n))
	}
	return group
}

// outside adds those with ranks of other hosts.
func (b *builder) outside(p *wire.Phase, in, out func(p int) device.Ptr, n int64) {
	b.others(func(h int) {
		for _, q := range b.members[h] {
			p.Sends = append(p.Sends, send(q, in(q), n*b.elem))
			p.Recvs = append(p.Recvs, send(q, out(q), n*b.elem))
		}
	})
}
