package nvlink

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/cuda"
)

// broadcastSplit is the size from which, without a table, the root sends each byte once and the ranks forward the
// slices to each other.
const broadcastSplit = 32 << 10

// broadcastMessages is the largest broadcast that goes as messages of LL instead of around the ring: below NVLink the
// first part of a ring costs several round trips. A forced ring is a ring at every size.
func (e *Engine) broadcastMessages() int64 {
	if !e.table.noLL128 || e.table.forced[collective.Broadcast] || e.size == 1 {
		return 0
	}
	return (slowStreamFrom - 1) / int64(e.size-1)
}

// broadcast runs in one or two shots. One shot: the root sends everything to all, (n−1)·N bytes out of one port in one
// hop. Two shots: N bytes out of each port in two hops.
func (e *Engine) broadcast(r *collective.Request, s *cuda.Stream) error {
	total := r.Bytes()
	if w, err := e.copyWindow(r, 1); err != nil {
		return err
	} else if w != nil {
		return e.copyBroadcast(r, s, w)
	}
	v, err := e.pick(r, total, s)
	if err != nil {
		return err
	}
	staged := e.staged(r)
	if !staged && v.protocol == direct {
		return e.direct(r, s, v)
	}
	if !staged && v.protocol == ring && total > e.broadcastMessages() {
		return e.ringBroadcast(r, s, v)
	}
	if !staged && v.twoShot && e.size > 1 {
		a := e.args
		a.send, a.recv = uint64(r.Send), uint64(r.Recv)
		if e.rank != r.Root {
			a.send = a.recv // ignored; must not break the alignment
		}
		slice := sliceOf(total, int64(e.size-1))
		a.bytes, a.root, a.sendStride, a.recvStride = uint64(total), uint32(r.Root), uint64(slice), 0
		return e.launchMove(s, broadcasting, variant{protocol: ll128, threads: v.threads}, slice)
	}
	e.batch.reset()
	if e.rank != r.Root {
		e.batch.recv(r.Root, r.Recv, total)
		return e.messages(r, s)
	}
	for p := range e.size {
		e.batch.send(p, r.Send, total)
	}
	e.batch.recv(r.Root, r.Recv, total)
	return e.messages(r, s)
}
