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

// allToAllDirect, for each chunk of every block: messages between each two ranks, by the local engine or the wire. An
// all-to-all in place sends copies.
func (b *builder) allToAllDirect() {
	count, inPlace := b.r.Count, b.r.Send == b.r.Recv
	pieces(count, b.perChunk(count, int64(b.size())), func(off, n int64) {
		c, saved := b.next()
		bytes := n * b.elem
		in := func(p int) device.Ptr { return b.r.Send.Add((int64(p)*count + off) * b.elem) }
		out := func(p int) device.Ptr { return b.r.Recv.Add((int64(p)*count + off) * b.elem) }
		if inPlace {
			from := in
			in = func(p int) device.Ptr { return saved.Add(int64(p) * bytes) }
			var save work
			for p := range b.size() {
				save.copies = append(save.copies, copying{in(p), from(p), bytes})
			}
			c.before = append(c.before, save)
		}
		var group []collective.Request
		for _, q := range b.mine() {
			group = append(group, b.message(collective.Send, q, in(q), n), b.message(collective.Recv, q, out(q), n))
		}
		do(&c.before, group...)
		p := &wire.Phase{}
		b.others(func(h int) {
			for _, q := range b.members[h] {
				p.Sends = append(p.Sends, send(q, in(q), bytes))
				p.Recvs = append(p.Recvs, send(q, out(q), bytes))
			}
		})
		c.phase(p)
	})
}
