package hosts

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/wire"
)

// localBroadcasts is the size of a block from which an all-gather gives blocks to the ranks of a host by broadcasts,
// which can copy straight between buffers, and not by messages.
const localBroadcasts = 64 << 10

// broadcast: the root sends to one rank of each host, and these give the data to their hosts.
func (b *builder) broadcast() {
	leaders := b.railMembers(b.local[b.r.Root])
	pieces(b.r.Count, b.perPhase(b.r.Count, 1), func(off, n int64) {
		c, _ := b.next()
		from, out := b.r.Recv.Add(off*b.elem), b.r.Recv.Add(off*b.elem)
		p := &wire.Phase{}
		switch leader := leaders[b.here()]; b.rank {
		case b.r.Root:
			from = b.r.Send.Add(off * b.elem)
			b.others(func(h int) { p.Sends = append(p.Sends, send(leaders[h], from, n*b.elem)) })
		case leader:
			p.Recvs = append(p.Recvs, send(b.r.Root, out, n*b.elem))
		}
		c.phase(p)
		if len(b.mine()) > 1 || from != out {
			r := b.request(collective.Broadcast, from, out, n)
			r.Root = b.local[leaders[b.here()]]
			do(&c.after, r)
		}
	})
}

// allGather, for each chunk of every block: a rank sends its block to the other ranks of its rail. Then the ranks of a
// host give each other their own and the received blocks.
func (b *builder) allGather() {
	if b.choose(b.r.Count*b.elem*int64(b.size())) == nameGathered {
		b.gatherFirst()
		return
	}
	pieces(b.r.Count, b.perPhase(b.r.Count, 1), func(off, n int64) {
		c, _ := b.next()
		bytes := n * b.elem
		in := b.r.Send.Add(off * b.elem)
		_, block := b.blocksFrom(off)
		p := &wire.Phase{}
		b.others(func(h int) {
			p.Sends = append(p.Sends, send(b.onRail(h, b.own()), in, bytes))
			for _, r := range b.members[h] {
				if b.relay(r) == b.rank {
					p.Recvs = append(p.Recvs, send(r, block(r), bytes))
				}
			}
		})
		c.phase(p)
		if bytes >= localBroadcasts {
			b.broadcastBlocks(c, in, block, off, n)
		} else {
			b.passBlocks(c, in, block, n)
		}
	})
}

// broadcastBlocks shares a chunk of every block inside the host, each by a broadcast from the rank that has it.
func (b *builder) broadcastBlocks(c *chunk, in device.Ptr, block func(p int) device.Ptr, off, n int64) {
	// The blocks of this host need not wait for the network.
	together := b.inPlace && len(b.mine()) > 1 && b.isContiguous(b.here())
	if together && off == 0 {
		do(&c.beside, b.request(collective.AllGather, b.r.Send, block(b.mine()[0]), b.r.Count))
	}
	for r := range b.size() {
		if together && b.host[r] == b.here() {
			continue
		}
		from := block(r)
		if r == b.rank {
			from = in
		}
		if len(b.mine()) > 1 || from != block(r) {
			q := b.request(collective.Broadcast, from, block(r), n)
			q.Root = b.local[b.relay(r)]
			do(&c.after, q)
		}
	}
}

// passBlocks shares a chunk of every block inside the host by messages, all in one group.
func (b *builder) passBlocks(c *chunk, in device.Ptr, block func(p int) device.Ptr, n int64) {
	var group []collective.Request
	for _, q := range b.mine() {
		for r := range b.size() {
			from := block(r)
			if r == b.rank {
				from = in
			}
			if b.relay(r) == b.rank && !(q == b.rank && from == block(r)) {
				group = append(group, b.message(collective.Send, q, from, n))
				if q == b.rank {
					group = append(group, b.message(collective.Recv, q, block(r), n))
				}
			}
			if q != b.rank && b.relay(r) == q {
				group = append(group, b.message(collective.Recv, q, block(r), n))
			}
		}
	}
	do(&c.after, group...)
}

// message is a send or receive inside the host. peer has its number in the communicator.
func (b *builder) message(c collective.Collective, peer int, at device.Ptr, count int64) collective.Request {
	r := b.request(c, 0, 0, count)
	r.Peer = b.local[peer]
	if c == collective.Send {
		r.Send = at
	} else {
		r.Recv = at
	}
	return r
}

// rooted is gather and scatter. In a gather a rank of another host sends its block to the rank of the root's host on
// its rail, which gives it to the root. A scatter goes the other way.
func (b *builder) rooted() {
	root, gathers := b.r.Root, b.r.Collective == collective.Gather
	give, take := collective.Send, collective.Recv
	own, whole := b.r.Send, b.r.Recv
	if !gathers {
		give, take, own, whole = take, give, whole, own
	}
	pieces(b.r.Count, b.perPhase(b.r.Count, int64(b.size())), func(off, n int64) {
		c, scratch := b.next()
		bytes := n * b.elem
		mine := own.Add(off * b.elem)
		p := &wire.Phase{}
		here, there := &p.Recvs, &p.Sends // on the root's host, on others
		group := &c.after
		if !gathers {
			here, there, group = there, here, &c.before
		}
		if b.host[root] != b.here() {
			*there = append(*there, send(b.onRail(b.host[root], b.own()), mine, bytes))
			c.phase(p)
			return
		}
		var list []collective.Request
		for r := range b.size() {
			holder, at := b.relay(r), scratch.Add(int64(r)*bytes)
			final := whole.Add((int64(r)*b.r.Count + off) * b.elem) // at the root
			switch {
			case r == b.rank:
				at = mine
			case b.rank == root:
				at = final
			}
			if holder == b.rank && r != b.rank {
				*here = append(*here, send(r, at, bytes))
			}
			if holder == b.rank && !(b.rank == root && at == final) {
				list = append(list, b.message(give, root, at, n))
			}
			if b.rank == root && !(holder == root && (r != root || at == final)) {
				list = append(list, b.message(take, holder, final, n))
			}
		}
		c.phase(p)
		do(group, list...)
	})
}

// allToAll, for each chunk of every block: the ranks of a host give the blocks for a rank of another host to its relay,
// which sends them together.
func (b *builder) allToAll() {
	if b.straight() {
		b.allToAllDirect()
		return
	}
	count := b.r.Count
	ranks := int64(len(b.mine()))
	copies := b.mostRelayed()
	inPlace := b.r.Send == b.r.Recv
	pieces(count, b.perChunk(count, copies+int64(b.size())), func(off, n int64) {
		c, scratch := b.next()
		bytes := n * b.elem
		in, out := b.blocksFrom(off)
		if inPlace {
			in = b.save(c, in, scratch.Add(copies*bytes), bytes)
		}
		var group []collective.Request
		var own work
		p := &wire.Phase{}
		for _, q := range b.mine() { // inside the host
			if q != b.rank {
				group = append(group, b.message(collective.Send, q, in(q), n), b.message(collective.Recv, q, out(q), n))
			} else if in(q) != out(q) {
				own.copies = append(own.copies, copying{out(q), in(q), bytes})
			}
		}
		slot := int64(0)
		b.others(func(h int) {
			for _, q := range b.members[h] {
				if r := b.relay(q); r != b.rank {
					group = append(group, b.message(collective.Send, r, in(q), n))
					continue
				}
				at := scratch.Add(slot * ranks * bytes)
				slot++
				if ranks == 1 {
					at = in(q)
				} else {
					group = b.collect(group, &own, at, in(q), n)
				}
				p.Sends = append(p.Sends, b.blocks(b.here(), q, n == count, bytes, func(i int) device.Ptr {
					return at.Add(int64(i) * bytes)
				})...)
			}
			p.Recvs = append(p.Recvs, b.blocks(h, b.onRail(h, b.own()), n == count, bytes, func(i int) device.Ptr {
				return out(b.members[h][i])
			})...)
		})
		if len(own.copies) > 0 {
			c.before = append(c.before, own)
		}
		do(&c.before, group...)
		c.phase(p)
	})
}

// save copies a chunk of every block away, before it is overwritten, and returns where the copies are.
func (b *builder) save(c *chunk, in func(p int) device.Ptr, to device.Ptr, bytes int64) func(p int) device.Ptr {
	saved := func(p int) device.Ptr { return to.Add(int64(p) * bytes) }
	var save work
	for p := range b.size() {
		save.copies = append(save.copies, copying{saved(p), in(p), bytes})
	}
	c.before = append(c.before, save)
	return saved
}

// collect makes a relay receive the blocks of its host for one rank of another host, side by side at an address. own
// gets the copy of this rank's block.
func (b *builder) collect(group []collective.Request, own *work, at, block device.Ptr, n int64) []collective.Request {
	bytes := n * b.elem
	for i, r := range b.mine() {
		to := at.Add(int64(i) * bytes)
		if r != b.rank {
			group = append(group, b.message(collective.Recv, r, to, n))
		} else {
			own.copies = append(own.copies, copying{to, block, bytes})
		}
	}
	return group
}

// blocks are the messages that carry one block of every rank of host from: one message if the blocks of both sides are
// contiguous.
func (b *builder) blocks(from, peer int, whole bool, bytes int64, at func(i int) device.Ptr) []wire.Part {
	n := len(b.members[from])
	if whole && b.isContiguous(from) {
		return []wire.Part{send(peer, at(0), int64(n)*bytes)}
	}
	list := make([]wire.Part, n)
	for i := range n {
		list[i] = send(peer, at(i), bytes)
	}
	return list
}

// mostRelayed is the largest number of blocks that a rank relays in an all-to-all. It is the same on all ranks.
func (b *builder) mostRelayed() int64 {
	most := 0
	for h, mine := range b.members {
		served := make([]int, len(mine))
		for o, theirs := range b.members {
			for j := range theirs {
				if o != h {
					served[j%len(mine)] += len(mine)
				}
			}
		}
		for _, n := range served {
			most = max(most, n)
		}
	}
	return int64(most)
}
