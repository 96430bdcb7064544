package shm

import "github.com/goccl/goccl/device"

// Below oneShotBytes every rank reduces everything itself: one phase instead of two.
const oneShotBytes = 4 << 10

// allReduce reduces and, if wanted, stores the result in Recv (a reduce wants it on one rank only).
//
//	one-shot   1 phase,  reads n·N bytes per rank
//	two-shot   2 phases, reads N + N bytes per rank: its share of all ranks' data, then all shares of the result
//
// Large messages are reduced here only if they cannot be direct (direct.go).
func (o *op) allReduce(wanted bool) error {
	r := o.req
	total := r.Bytes()
	send, recv := device.Bytes(r.Send, total), []byte(nil)
	if wanted {
		recv = device.Bytes(r.Recv, total)
	}
	if total == 0 {
		return o.step()
	}
	elem := r.Type.Size()
	for off := int64(0); off < total; off += slotBytes {
		n := min(slotBytes, total-off)
		var out []byte
		if wanted {
			out = recv[off : off+n]
		}
		if err := o.allReducePiece(send[off:off+n], out, elem); err != nil {
			return err
		}
	}
	return nil
}

func (o *op) allReducePiece(send, recv []byte, elem int64) error {
	e, n := o.e, int64(len(send))
	if err := o.contribute(o.slot(), send); err != nil {
		return err
	}
	if err := o.step(); err != nil {
		return err
	}
	if e.goesOneShot(o.req.Collective, n) {
		if recv == nil {
			return nil
		}
		return o.reduceFromSlots(recv, 0, n)
	}
	lo, hi := portion(n, e.rank, e.size, elem)
	if err := o.reduceFromSlots(o.slot()[lo:hi], lo, hi); err != nil {
		return err
	}
	if err := o.step(); err != nil {
		return err
	}
	if recv == nil {
		return nil
	}
	for k := range e.size {
		p := (e.rank + k) % e.size // start with this rank, to spread the reads over the windows
		lo, hi := portion(n, p, e.size, elem)
		copy(recv[lo:hi], o.peerSlot(p)[lo:hi])
	}
	return nil
}

// reduceFromSlots reduces bytes [lo, hi) of all slots of the current phase.
func (o *op) reduceFromSlots(dst []byte, lo, hi int64) error {
	if lo == hi {
		return nil
	}
	for p := range o.e.size {
		o.e.srcs[p] = o.peerSlot(p)[lo:hi]
	}
	return o.reduce(dst, o.e.srcs)
}

// reduceScatter has 1 phase per piece; slice p of a piece is part p of the slot.
func (o *op) reduceScatter() error {
	e, r := o.e, o.req
	each := r.Bytes()
	if each == 0 {
		return o.step()
	}
	send, recv := device.Bytes(r.Send, each*int64(e.size)), device.Bytes(r.Recv, each)
	part := slotBytes / int64(e.size) &^ 63
	for off := int64(0); off < each; off += part {
		n := min(part, each-off)
		slot := o.slot()
		for p := range int64(e.size) {
			if err := o.contribute(slot[p*part:], send[p*each+off:p*each+off+n]); err != nil {
				return err
			}
		}
		if err := o.step(); err != nil {
			return err
		}
		for p := range e.size {
			at := int64(e.rank) * part
			e.srcs[p] = o.peerSlot(p)[at : at+n]
		}
		if err := o.reduce(recv[off:off+n], e.srcs); err != nil {
			return err
		}
	}
	return nil
}
