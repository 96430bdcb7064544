package hosts

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/wire"
)

// relayBytes is the average size of the messages between ranks of different hosts up to which, without a table, an
// all-to-all-v whose counts all ranks know goes over relays. Larger messages gain nothing, and pass twice through the
// memory of a host.
const relayBytes = 16 << 10

// relaysV reports whether an all-to-all-v goes over relays: relayV. It is the same on all ranks, because it depends
// on the counts and the topology, which all ranks know, and on room. room is the size of an area of scratch.
func (b *builder) relaysV(room int64) bool {
	if b.r.AllCounts == nil || b.rails == 1 {
		return false
	}
	var bytes, pairs int64
	for s := range b.size() {
		for d := range b.size() {
			if b.host[s] != b.host[d] {
				bytes += b.counts(s, d)
				pairs++
			}
		}
	}
	if b.choose((bytes+pairs-1)/pairs*int64(b.size())) != nameRelays {
		return false
	}
	for q := range b.size() {
		if b.arriving(q) > room || b.relayed(q) > room {
			return false
		}
	}
	return true
}

// counts is the number of bytes that rank s sends to rank d.
func (b *builder) counts(s, d int) int64 { return b.r.AllCounts[s*b.size()+d] * b.elem }

// between is the number of bytes that the ranks of host h send to rank d.
func (b *builder) between(h, d int) (bytes int64) {
	for _, s := range b.members[h] {
		bytes += b.counts(s, d)
	}
	return bytes
}

// arriving is the number of bytes that rank q gets from other hosts, and relayed the number that it sends to them.
func (b *builder) arriving(q int) (bytes int64) {
	for h := range b.members {
		if h != b.host[q] {
			bytes += b.between(h, q)
		}
	}
	return bytes
}

func (b *builder) relayed(q int) (bytes int64) {
	h := b.host[q]
	for d := range b.size() {
		if b.host[d] != h && b.onRail(h, b.local[d]) == q {
			bytes += b.between(h, d)
		}
	}
	return bytes
}

// relayV is an all-to-all-v over the rails. The ranks of a host give their blocks for a rank of another host to its
// relay, which sends them as one message. Where the parts do not follow each other in the receiver's buffer, they
// arrive in scratch. Empty parts and messages are left out: all ranks know which ones are. inside is the request of the
// local engine for the ranks of this host.
func (b *builder) relayV(inside collective.Request) *chunk {
	c, out := b.next()
	in := b.scratch[1]
	do(&c.before, inside)
	var group []collective.Request
	var own, unpack work
	p := &wire.Phase{}
	size := b.elem
	b.others(func(h int) {
		for _, q := range b.members[h] {
			relay := b.relay(q)
			if n := b.r.SendCounts[q]; relay != b.rank && n > 0 {
				group = append(group, b.message(collective.Send, relay, b.r.Send.Add(b.r.SendDispls[q]*size), n))
			}
			if total := b.between(b.here(), q); relay == b.rank && total > 0 {
				p.Sends = append(p.Sends, send(q, out, total))
				for _, s := range b.mine() {
					n := b.counts(s, q)
					switch {
					case n == 0:
					case s == b.rank:
						own.copies = append(own.copies, copying{out, b.r.Send.Add(b.r.SendDispls[q] * size), n})
					default:
						group = append(group, b.message(collective.Recv, s, out, n/size))
					}
					out = out.Add(n)
				}
			}
		}
		total := b.between(h, b.rank)
		if total == 0 {
			return
		}
		at, whole := b.place(h)
		if !whole {
			at = in
			for _, s := range b.members[h] {
				if n := b.counts(s, b.rank); n > 0 {
					unpack.copies = append(unpack.copies, copying{b.r.Recv.Add(b.r.RecvDispls[s] * size), in, n})
					in = in.Add(n)
				}
			}
		}
		p.Recvs = append(p.Recvs, send(b.onRail(h, b.own()), at, total))
	})
	if len(own.copies) > 0 {
		c.before = append(c.before, own)
	}
	do(&c.before, group...)
	c.phase(p)
	if len(unpack.copies) > 0 {
		c.after = append(c.after, unpack)
	}
	return c
}

// place is where the parts of host h begin in the receive buffer, and whether they follow each other in rank order.
func (b *builder) place(h int) (at device.Ptr, whole bool) {
	end := int64(-1)
	for _, s := range b.members[h] {
		n, displ := b.r.RecvCounts[s], b.r.RecvDispls[s]
		switch {
		case n == 0:
			continue
		case end < 0:
			at = b.r.Recv.Add(displ * b.elem)
		case displ != end:
			return 0, false
		}
		end = displ + n
	}
	return at, true
}
