package shm

import "github.com/goccl/goccl/device"

// oneShotBytes is the size up to which each receiver reduces a piece for itself: one phase instead of two.
const oneShotBytes = 4 << 10

// staged runs a collective through the slots, piece by piece. Each phase moves one piece of every block:
//
//  1. Every sender copies the piece of its blocks to its slot; block k is part k of the slot.
//  2. The phase ends.
//  3. Every receiver copies or reduces its part of the senders' slots.
//
// An all-reduce or reduce whose pieces are large has a second phase (combineApart): it reads N + N bytes per rank
// instead of n·N.
//
// A piece of every block is published before any of it is overwritten, so buffers may be in place, also in an
// all-to-all.
func (o *op) staged(s shape) error {
	e, r := o.e, o.req
	each := r.Bytes()
	if each == 0 {
		return o.step()
	}
	ran := e.recorded.staged
	if s.shared() {
		if ran = e.recorded.twoShot; e.goesOneShot(r, min(each, int64(slotBytes/s.send)&^63)) {
			ran = e.recorded.oneShot
		}
	}
	o.algorithm(ran)
	part := int64(slotBytes/s.send) &^ 63
	for off := int64(0); off < each; off += part {
		n := min(part, each-off)
		if s.from.has(e.rank) {
			slot := o.slot()
			for k := range s.send {
				if err := o.contribute(slot[int64(k)*part:], device.Bytes(r.Send.Add(int64(k)*each+off), n)); err != nil {
					return err
				}
			}
		}
		if err := o.step(); err != nil {
			return err
		}
		if s.shared() && !e.goesOneShot(r, n) {
			for p := range e.size {
				e.sendAt[p] = bytesAt(o.peerSlot(p))
			}
			if err := o.combineApart(r.Recv.Add(off), n, n, s.to); err != nil {
				return err
			}
			continue
		}
		if !s.to.has(e.rank) {
			continue
		}
		mine := block(s.send, e.rank, part)
		if s.reduce {
			for p := range e.size {
				e.srcs[p] = o.peerSlot(p)[mine : mine+n]
			}
			if err := o.reduce(device.Bytes(r.Recv.Add(off), n), e.srcs); err != nil {
				return err
			}
			continue
		}
		for k := range e.size {
			p := (e.rank + k) % e.size // start with this rank, to spread the reads over the arenas
			dst := r.Recv.Add(block(s.recv, p, each) + off)
			if s.from.has(p) && (p != e.rank || dst != r.Send.Add(block(s.send, p, each)+off)) {
				copy(device.Bytes(dst, n), o.peerSlot(p)[mine:])
			}
		}
	}
	return nil
}
