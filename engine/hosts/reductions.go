package hosts

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/wire"
)

// allReduce over rails, for each chunk:
//
//  1. Inside a host, a reduce-scatter gives each rail its shard. A host with fewer ranks than rails makes one reduction
//     for each rail.
//  2. The ranks of a rail divide their shard among the hosts, reduce the parts in the order of hosts, and gather them.
//     Two ranks exchange the whole shard instead: the same number of bytes, and one message less to wait for.
//  3. Inside a host, an all-gather of the shards.
//
// Small messages, and the few elements that the rails cannot divide, go over one rank of each host;
// or, where a wire reduces in place (wire.InPlace), small messages go as a whole over every rail.
func (b *builder) allReduce() {
	count := b.r.Count
	switch b.choose(count * b.elem) {
	case nameWhole:
		if count*b.elem <= b.room {
			b.wholeOnRails()
			return
		}
	case nameLeaders:
		b.leaders(0, count, 0)
		return
	}
	rails := int64(b.rails)
	per := max(1, b.perPhase(count, 1)/rails)
	off := int64(0)
	for count-off >= rails {
		n := min(per, (count-off)/rails)
		b.railReduce(off, n)
		off += rails * n
	}
	if off < count || count == 0 {
		b.leaders(off, count-off, 0)
	}
}

// wholeOnRails reduces the message inside each host, so that each of its ranks has the same partial result, and then
// over every rail.
func (b *builder) wholeOnRails() {
	c, partial := b.next()
	if b.alone() {
		partial = b.r.Send
	} else {
		do(&c.before, b.partial(collective.AllReduce, b.r.Send, partial, b.r.Count))
	}
	c.phase(b.exchange(b.railMembers(b.own()), partial, b.r.Recv, b.r.Count))
}

// exchange sends count elements to the peers, one of each host, and combines theirs.
func (b *builder) exchange(peers []int, own, dst device.Ptr, count int64) *wire.Phase {
	p := &wire.Phase{Reduces: []wire.Reduction{b.total(peers, own, dst, count)}}
	b.others(func(h int) { p.Sends = append(p.Sends, send(peers[h], own, count*b.elem)) })
	return p
}

// railReduce reduces n elements a rail, from offset off of the message.
func (b *builder) railReduce(off, n int64) {
	c, scratch := b.next()
	bytes := n * b.elem
	in, out := b.r.Send.Add(off*b.elem), b.r.Recv.Add(off*b.elem)
	ranks := len(b.mine())
	shard := func(k int) device.Ptr { return scratch.Add(int64(k/ranks) * bytes) }
	switch {
	case b.alone() && len(b.members) == 2 && in == out && !(b.inPlace && b.rails == 1):
		// Whole shards are sent while the result is written.
		c.before = []work{{copies: []copying{{scratch, in, int64(b.rails) * bytes}}}}
	case b.alone():
		shard = func(k int) device.Ptr { return in.Add(int64(k) * bytes) }
	case ranks == b.rails:
		do(&c.before, b.partial(collective.ReduceScatter, in, scratch, n))
	default:
		for k := range b.rails {
			r := b.partial(collective.Reduce, in.Add(int64(k)*bytes), shard(k), n)
			r.Root = k % ranks
			do(&c.before, r)
		}
	}
	reduce, gather := &wire.Phase{}, &wire.Phase{}
	for k := range b.rails {
		if !b.serves(k) {
			continue
		}
		peers, from, to := b.railMembers(k), shard(k), out.Add(int64(k)*bytes)
		// A rank of a small host is on many rails. Ranks divide them differently, and all go from rail to rail.
		if had := len(reduce.Reduces); had == mostReduces || had > 0 && (had+1)*len(peers) > mostTogether {
			c.phase(reduce)
			reduce = &wire.Phase{}
		}
		if len(peers) == 2 {
			reduce.Reduces = append(reduce.Reduces, b.total(peers, from, to, n))
			b.others(func(h int) { reduce.Sends = append(reduce.Sends, send(peers[h], from, bytes)) })
			continue
		}
		part := func(h int) (off, size int64) {
			lo, hi := portion(n, h, len(peers))
			return lo * b.elem, (hi - lo) * b.elem
		}
		mine, size := part(b.here())
		reduce.Reduces = append(reduce.Reduces, b.total(peers, from.Add(mine), to.Add(mine), size/b.elem))
		b.others(func(h int) {
			theirs, n := part(h)
			reduce.Sends = append(reduce.Sends, send(peers[h], from.Add(theirs), n))
			gather.Sends = append(gather.Sends, send(peers[h], to.Add(mine), size))
			gather.Recvs = append(gather.Recvs, send(peers[h], to.Add(theirs), n))
		})
	}
	c.phase(reduce)
	c.phase(gather)
	switch {
	case ranks == 1:
	case ranks == b.rails:
		do(&c.after, b.request(collective.AllGather, out.Add(int64(b.own())*bytes), out, n))
	default:
		for k := range b.rails {
			r := b.request(collective.Broadcast, out.Add(int64(k)*bytes), out.Add(int64(k)*bytes), n)
			r.Root = k % ranks
			do(&c.after, r)
		}
	}
}

// portion is the part of n elements for host h of hosts.
func portion(n int64, h, hosts int) (lo, hi int64) {
	return n * int64(h) / int64(hosts), n * int64(h+1) / int64(hosts)
}

// leaders reduces count elements from offset off over the ranks of one rail, which then give the result to their hosts.
func (b *builder) leaders(off, count int64, rail int) {
	b.reduceTo(off, count, b.railMembers(rail), true)
}

// reduceTo reduces to the given ranks, one of each host. If all is set, each of them combines, and all ranks get the
// result; else only Root does.
func (b *builder) reduceTo(off, count int64, ranks []int, all bool) {
	pieces(count, b.perPhase(count, 1), func(at, n int64) {
		c, partial := b.next()
		in, out := b.r.Send.Add((off+at)*b.elem), b.r.Recv.Add((off+at)*b.elem)
		leader := ranks[b.here()]
		if b.alone() && (b.inPlace || b.r.Send != b.r.Recv) {
			partial = in
		} else {
			r := b.partial(collective.Reduce, in, partial, n)
			r.Root = b.local[leader]
			do(&c.before, r)
		}
		p := &wire.Phase{}
		if b.rank == leader && (all || b.rank == b.r.Root) {
			p.Reduces = []wire.Reduction{b.total(ranks, partial, out, n)}
		}
		if b.rank == leader {
			b.others(func(h int) {
				if all || ranks[h] == b.r.Root {
					p.Sends = append(p.Sends, send(ranks[h], partial, n*b.elem))
				}
			})
		}
		c.phase(p)
		if all && len(b.mine()) > 1 {
			r := b.request(collective.Broadcast, out, out, n)
			r.Root = b.local[leader]
			do(&c.after, r)
		}
	})
}

// reduce combines at the root what one rank of each host has reduced inside its host.
func (b *builder) reduce() {
	b.reduceTo(0, b.r.Count, b.railMembers(b.local[b.r.Root]), false)
}

// reduceScatter, for each chunk of every block: inside a host, the blocks for a rank of another host are reduced at its
// relay, which sends the result; each rank combines the hosts' results in the order of hosts.
func (b *builder) reduceScatter() {
	ranks := int64(b.size())
	whole := b.r.Count*b.elem*ranks <= min(leaderBytes, b.room)
	most := b.perPhase(b.r.Count, ranks)
	if whole {
		most = max(1, b.r.Count)
	}
	pieces(b.r.Count, most, func(off, n int64) {
		c, scratch := b.next()
		block := func(p int) device.Ptr { return scratch.Add(int64(p) * n * b.elem) }
		in, _ := b.blocksFrom(off)
		switch {
		case b.alone():
			block = in
		case whole: // one operation in which ranks reduce more than they need
			do(&c.before, b.partial(collective.AllReduce, b.r.Send, scratch, b.r.Count*ranks))
		default:
			for p := range b.size() {
				r := b.partial(collective.Reduce, in(p), block(p), n)
				r.Root = b.local[b.relay(p)]
				do(&c.before, r)
			}
		}
		ph := &wire.Phase{Reduces: []wire.Reduction{
			b.total(b.railMembers(b.own()), block(b.rank), b.r.Recv.Add(off*b.elem), n)}}
		b.others(func(h int) {
			for _, p := range b.members[h] {
				if b.relay(p) == b.rank {
					ph.Sends = append(ph.Sends, send(p, block(p), n*b.elem))
				}
			}
		})
		c.phase(ph)
	})
}
