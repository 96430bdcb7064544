package shm

import (
	"errors"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
)

// Direct requests access the users' buffers without staging:
//
//  1. enter   a phase in which all ranks publish their buffers; a rank that has seen it may access them
//  2. move    each rank does its share of the reads and writes; all-reduces and reduces are shared out piece by piece
//  3. leave   a phase: all ranks have moved, and no rank accesses a peer's buffer any more
//
// A rank that leaves because of an error may be ahead of a peer that still moves. A peer therefore checks the exit
// statuses between tiles, and a leaver does not end its request while a peer can write to its receive buffer,
// because the caller may then use or free the memory (quit). A mover raises its flag and then reads the exit
// statuses. A leaver writes its exit status and then reads the flags. All four are sequentially consistent, so one
// of the two sees the other. A process may be stopped between any two instructions with its flag raised and continue
// much later. A leaver cannot wait for that, so it takes the pages of its receive buffer back. Peers in other
// processes therefore write only to receive buffers that share no page with other memory and that only this engine
// exports. For other buffers each rank writes only its own memory (combineApart).
//
// A late read is harmless, because the reader's request fails at its next phase.
const (
	// directFrom is the message size from which direct requests pay: they have one phase more than the smallest
	// requests and two copies fewer.
	directFrom = 8 << 10

	// checkEvery is the number of bytes between checks of the exit statuses. Copies of 1 MiB and more would be
	// non-temporal.
	checkEvery = 256 << 10
)

// enter is step 1. direct is false if some rank cannot read all the required send buffers. push is false if some rank
// cannot write to all the receive buffers. Both are the same on all ranks. enter sets e.sendAt and e.recvAt to the
// addresses in this process.
func (o *op) enter(sends, recvs rankSet, sendBytes, recvBytes int64) (direct, push bool, err error) {
	e := o.e
	o.send, o.recv = place{address: uint64(o.req.Send)}, place{address: uint64(o.req.Recv)}
	if !e.local {
		e.buffers.Sweep()
		if sends.has(e.rank) {
			o.send = e.buffers.place(o.req.Send, sendBytes, place{}, false)
		}
		if recvs.has(e.rank) {
			o.recv = e.buffers.place(o.req.Recv, recvBytes, o.send, true)
			if o.recv.number != 0 {
				e.granted = granted{o.req.Recv, recvBytes}
			}
		}
		e.buffers.publish()
	}
	if err := o.step(); err != nil {
		return false, false, err
	}
	push = e.local
	if !e.local {
		push = o.agreed(recvs, func(d *descriptor) uint32 { return d.recv.number })
		direct = o.agreed(sends, func(d *descriptor) uint32 { return d.send.number })
		if !direct || !push {
			e.buffers.learn(o.limit)
		}
		if !direct {
			return false, false, nil
		}
	}
	for r, a := range e.arenas {
		d := a.desc(e.phase)
		e.sendAt[r], e.recvAt[r] = device.Ptr(d.send.address), device.Ptr(d.recv.address)
		if e.local {
			continue
		}
		if r == e.rank {
			e.sendAt[r], e.recvAt[r] = o.req.Send, o.req.Recv
			continue
		}
		if sends.has(r) {
			e.sendAt[r] = e.buffers.at(r, d.send, sendBytes)
		}
		if e.recvAt[r] = 0; push && recvs.has(r) {
			e.recvAt[r] = e.buffers.at(r, d.recv, recvBytes)
		}
		if sends.has(r) && e.sendAt[r] == 0 || push && recvs.has(r) && e.recvAt[r] == 0 {
			return false, false, o.unmapped(r)
		}
	}
	o.entered = true
	return true, push, nil
}

// unmapped is the error of a request that needs an entry of rank r's directory that is gone: r has left and took it
// along.
func (o *op) unmapped(r int) error {
	if o.e.gone(r) {
		return o.left(r)
	}
	return o.error(r, errors.New("the rank's directory entry is gone: its arena was written over"))
}

// agreed reports whether all ranks have mapped the buffers of the ranks in of; number picks the entry from the
// published descriptor. All ranks read the same data, so they get the same result.
func (o *op) agreed(of rankSet, number func(*descriptor) uint32) bool {
	e := o.e
	for r, a := range e.arenas {
		if !of.has(r) {
			continue
		}
		need := number(a.desc(e.phase))
		if need == 0 {
			return false
		}
		for q, v := range e.arenas {
			if q != r && v.known(e.phase)[r] < need {
				return false
			}
		}
	}
	return true
}

// anyInPlace reports whether some rank sends and receives in the same memory, by the descriptors of this phase.
func (o *op) anyInPlace() bool {
	for _, a := range o.e.arenas {
		if d := a.desc(o.e.phase); d.send.address == d.recv.address {
			return true
		}
	}
	return false
}

// check ends a move early if this rank is aborted, or if a peer has left: the peer may no longer own its buffers.
func (o *op) check() error {
	e := o.e
	if err := o.limit.Check(); err != nil && !errors.Is(err, wait.ErrTimeout) {
		return o.fail(-1, err)
	}
	for r, a := range e.arenas {
		if r != e.rank && a.exitStatus().code.Load() != 0 {
			return o.left(r)
		}
	}
	return nil
}

// move copies n bytes between buffers.
func (o *op) move(dst, src device.Ptr, n int64) error {
	for off := int64(0); dst != src && off < n; off += checkEvery {
		if err := o.check(); err != nil {
			return err
		}
		piece := min(checkEvery, n-off)
		copy(device.Bytes(dst.Add(off), piece), device.Bytes(src.Add(off), piece))
	}
	return nil
}

// inPlace runs the request straight between the buffers if all ranks can. done is false if the request must be staged.
func (o *op) inPlace(s shape) (done bool, err error) {
	e, r := o.e, o.req
	each := r.Bytes()
	if !e.goesDirect(r, each*int64(max(s.send, s.recv))) || r.Op == datatype.PreMulSum && s.reduce {
		return false, nil
	}
	written := nobody // ranks whose receive buffers peers write to
	if s.shared() {
		written = s.to
	}
	e.granted = granted{}
	done, push, err := o.enter(s.from, written, each*int64(s.send), each*int64(s.recv))
	if err != nil || !done {
		return false, err
	}
	if r.Collective == collective.AllToAll && o.anyInPlace() {
		return false, nil // every rank would overwrite data that a peer has yet to read
	}
	o.algorithm(e.recorded.direct)
	left, err := o.direct(s, each, push)
	if err != nil {
		return false, err
	}
	if left {
		return true, nil
	}
	return true, o.step()
}

// direct is step 2. left is true if it includes step 3.
func (o *op) direct(s shape, each int64, push bool) (left bool, err error) {
	e, r := o.e, o.req
	moving := e.arenas[e.rank].moving()
	moving.Store(1)
	defer moving.Store(0) // also after a fault on a buffer
	mine := block(s.send, e.rank, each)
	switch {
	case s.shared() && push:
		return false, o.combineTogether(each, s.to)
	case s.shared():
		return true, o.combineApart(r.Recv, each, apartBytes*int64(e.size), s.to)
	case s.reduce:
		return false, o.combine(mine, mine+each, 0, o.receivers(rankSet(e.rank)))
	case e.local && r.Collective == collective.Gather: // all at the same time; between processes the root reads instead
		return false, o.move(e.recvAt[r.Root].Add(block(s.recv, e.rank, each)), r.Send, each)
	}
	for k := range e.size {
		p := (e.rank + k) % e.size
		if !s.from.has(p) || !s.to.has(e.rank) {
			continue
		}
		if err := o.move(r.Recv.Add(block(s.recv, p, each)), e.sendAt[p].Add(mine), each); err != nil {
			return false, err
		}
	}
	return false, nil
}
