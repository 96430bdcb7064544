package hosts

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/job/bootstrap"
)

// inRankOrder reduces without partial results of hosts, in the order of ranks, so that the bits do not depend on which
// ranks share a host. More bytes cross the network: a host sends what its ranks have, and not their sum.
//
//	all_reduce      up to wholeBytes: each rank gets all elements of all ranks and reduces them
//	                above: each rank reduces a share, and all ranks get the shares
//	reduce          the root gets all elements of all ranks
//	reduce_scatter  each rank gets the elements of its block
//
// In a pre-multiplied sum a rank multiplies its elements, into scratch, before others see them.
func (b *builder) inRankOrder() {
	count, ranks := b.r.Count, int64(b.size())
	at := func(base device.Ptr, element int64) device.Ptr { return base.Add(element * b.elem) }
	switch b.r.Collective {
	case collective.ReduceScatter:
		pieces(count, b.perSlot(count), func(off, n int64) {
			b.fold(func(p int) (device.Ptr, int64) { return at(b.r.Send, int64(p)*count+off), n }, at(b.r.Recv, off))
		})
	case collective.Reduce:
		pieces(count, b.perSlot(count), func(off, n int64) {
			b.fold(func(p int) (device.Ptr, int64) {
				if p != b.r.Root {
					return 0, 0
				}
				return at(b.r.Send, off), n
			}, at(b.r.Recv, off))
		})
	case collective.AllReduce:
		if most := b.perSlot(count); count*b.elem <= wholeBytes && count <= most {
			b.fold(func(int) (device.Ptr, int64) { return b.r.Send, count }, b.r.Recv)
			return
		}
		pieces(count, b.perSlot((count+ranks-1)/ranks)*ranks, func(off, n int64) {
			share := func(p int) (lo, size int64) {
				lo, hi := portion(n, p, b.size())
				return lo, hi - lo
			}
			mine, _ := share(b.rank)
			c := b.fold(func(p int) (device.Ptr, int64) {
				lo, size := share(p)
				return at(b.r.Send, off+lo), size
			}, at(b.r.Recv, off+mine))
			b.giveAll(c, func(p int) (device.Ptr, int64) {
				lo, size := share(p)
				return at(b.r.Recv, off+lo), size
			})
		})
	}
}

// aheadBytes is the most that goes to a rank at a time among many ranks: there messages go ahead of a reduction if the
// rings have room for them.
const aheadBytes = 128 << 10

// perSlot is the number of elements of a rank's share of a chunk: the scratch holds one of each rank of a host, and the
// products for each rank. It is the same on all ranks.
func (b *builder) perSlot(count int64) int64 {
	slots := int64(b.rails)
	if b.r.Op == datatype.PreMulSum {
		slots += int64(b.size())
	}
	most := b.room / slots &^ 15
	if b.size() > mostTogether {
		most = min(most, aheadBytes)
	}
	return max(1, min(b.perChunk(count, slots), most/b.elem, max(1, count)))
}

// fold adds a chunk in which each rank reduces to dst, in rank order, what all ranks have for it: in says where this
// rank has the elements for a rank, and how many.
func (b *builder) fold(in func(p int) (device.Ptr, int64), dst device.Ptr) *chunk {
	c, slots := b.next()
	if b.r.Op == datatype.PreMulSum {
		in = b.products(c, in, slots)
	}
	own, count := in(b.rank)
	stride := b.slotBytes(count)
	slot := func(p int) device.Ptr { return slots.Add(int64(b.local[p]) * stride) }
	var group []collective.Request
	for _, q := range b.mine() {
		if q == b.rank {
			continue
		}
		if from, n := in(q); n > 0 {
			group = append(group, b.message(collective.Send, q, from, n))
		}
		if count > 0 {
			group = append(group, b.message(collective.Recv, q, slot(q), count))
		}
	}
	p := &wire.Phase{}
	if count > 0 {
		c.before = append(c.before, work{copies: []copying{{slot(b.rank), own, count * b.elem}}})
		r := b.total(bootstrap.Everyone(b.size()), slots, dst, count)
		r.Here, r.Stride, r.Ranks, r.Scaled = b.mine(), stride, b.size(), false
		p.Reduces = []wire.Reduction{r}
	}
	do(&c.before, group...)
	b.others(func(h int) {
		for _, q := range b.members[h] {
			from, n := in(q)
			if from == own && count > 0 { // the result may be written there
				from = slot(b.rank)
			}
			if n > 0 {
				p.Sends = append(p.Sends, send(q, from, n*b.elem))
			}
		}
	})
	c.phase(p)
	return c
}

// slotBytes is the room of count elements in the scratch.
func (b *builder) slotBytes(count int64) int64 { return (count*b.elem + 15) &^ 15 }

// products begins a chunk with the multiplication of what this rank has for the ranks, and returns where that is then:
// behind the slots of the ranks of this host.
func (b *builder) products(c *chunk, in func(p int) (device.Ptr, int64), slots device.Ptr) func(p int) (device.Ptr,
	int64) {
	_, count := in(b.rank)
	at := slots.Add(int64(b.rails) * b.slotBytes(count))
	done := map[device.Ptr]device.Ptr{}
	var w work
	for p := range b.size() {
		from, n := in(p)
		if _, ok := done[from]; ok || n == 0 {
			continue
		}
		r := b.request(collective.AllReduce, from, at, n)
		r.Op, r.Scalar, r.ScalarPtr = b.r.Op, b.r.Scalar, b.r.ScalarPtr
		w.scales = append(w.scales, r)
		done[from] = at
		at = at.Add(b.slotBytes(n))
	}
	c.before = append(c.before, w)
	return func(p int) (device.Ptr, int64) {
		from, n := in(p)
		return done[from], n
	}
}

// giveAll ends a chunk with the share of each rank given to all ranks.
func (b *builder) giveAll(c *chunk, share func(p int) (device.Ptr, int64)) {
	from, n := share(b.rank)
	p := &wire.Phase{}
	b.others(func(h int) {
		for _, q := range b.members[h] {
			if n > 0 {
				p.Sends = append(p.Sends, send(q, from, n*b.elem))
			}
			if at, size := share(q); size > 0 {
				p.Recvs = append(p.Recvs, send(q, at, size*b.elem))
			}
		}
	})
	c.phase(p)
	var group []collective.Request
	for _, q := range b.mine() {
		if q == b.rank {
			continue
		}
		if n > 0 {
			group = append(group, b.message(collective.Send, q, from, n))
		}
		if at, size := share(q); size > 0 {
			group = append(group, b.message(collective.Recv, q, at, size))
		}
	}
	do(&c.after, group...)
}
