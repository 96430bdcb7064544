package shm

import "github.com/goccl/goccl/device"

// allGather has 1 phase per piece. Every rank reads every slot; for a gather only the root does.
func (o *op) allGather(wanted bool) error {
	e, r := o.e, o.req
	each := r.Bytes()
	if each == 0 {
		return o.step()
	}
	send := device.Bytes(r.Send, each)
	var recv []byte
	if wanted {
		recv = device.Bytes(r.Recv, each*int64(e.size))
	}
	for off := int64(0); off < each; off += slotBytes {
		n := min(slotBytes, each-off)
		copy(o.slot(), send[off:off+n])
		if err := o.step(); err != nil {
			return err
		}
		for k := 0; wanted && k < e.size; k++ {
			p := (e.rank + k) % e.size
			at := int64(p)*each + off
			copy(recv[at:at+n], o.peerSlot(p))
		}
	}
	return nil
}

// broadcast has 1 phase per piece. All ranks read the root's slot.
func (o *op) broadcast() error {
	e, r := o.e, o.req
	total := r.Bytes()
	if total == 0 {
		return o.step()
	}
	for off := int64(0); off < total; off += slotBytes {
		n := min(slotBytes, total-off)
		if e.rank == r.Root {
			copy(o.slot(), device.Bytes(r.Send.Add(off), n))
		}
		if err := o.step(); err != nil {
			return err
		}
		if e.rank != r.Root {
			copy(device.Bytes(r.Recv.Add(off), n), o.peerSlot(r.Root))
		} else if r.Send != r.Recv {
			copy(device.Bytes(r.Recv.Add(off), n), device.Bytes(r.Send.Add(off), n))
		}
	}
	return nil
}

// allToAll has 1 phase per piece; slice p of a piece is part p of the slot. Send is copied to the slot before Recv is
// written, so in place works if everything fits in one piece. NCCL refuses larger in-place exchanges. They are safe
// here by reading ahead of the writes: piece k of every slice is published before piece k of any slice is overwritten.
func (o *op) allToAll() error {
	e, r := o.e, o.req
	each := r.Bytes()
	if each == 0 {
		return o.step()
	}
	send, recv := device.Bytes(r.Send, each*int64(e.size)), device.Bytes(r.Recv, each*int64(e.size))
	part := slotBytes / int64(e.size) &^ 63
	for off := int64(0); off < each; off += part {
		n := min(part, each-off)
		slot := o.slot()
		for p := range int64(e.size) {
			copy(slot[p*part:], send[p*each+off:p*each+off+n])
		}
		if err := o.step(); err != nil {
			return err
		}
		for k := range e.size {
			p := (e.rank + k) % e.size
			at := int64(p)*each + off
			copy(recv[at:at+n], o.peerSlot(p)[int64(e.rank)*part:])
		}
	}
	return nil
}

// scatter has 1 phase per piece. The root's slot holds a part for every rank.
func (o *op) scatter() error {
	e, r := o.e, o.req
	each := r.Bytes()
	if each == 0 {
		return o.step()
	}
	part := slotBytes / int64(e.size) &^ 63
	for off := int64(0); off < each; off += part {
		n := min(part, each-off)
		if e.rank == r.Root {
			send, slot := device.Bytes(r.Send, each*int64(e.size)), o.slot()
			for p := range int64(e.size) {
				copy(slot[p*part:], send[p*each+off:p*each+off+n])
			}
		}
		if err := o.step(); err != nil {
			return err
		}
		copy(device.Bytes(r.Recv.Add(off), n), o.peerSlot(r.Root)[int64(e.rank)*part:])
	}
	return nil
}
