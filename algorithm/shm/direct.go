package shm

import (
	"errors"
	"unsafe"

	"github.com/goccl/goccl/algorithm"
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
// A rank that leaves because of an error may be ahead of a peer that still moves. A peer therefore checks the fates
// between tiles, and a leaver does not end its request while a peer can write to its receive buffer, because the caller
// may then use or free the memory (quit). A mover raises its flag and then reads the fates. A leaver writes its fate
// and then reads the flags. All four are sequentially consistent, so one of the two sees the other. A process may be
// stopped between any two instructions with its flag raised and continue much later. A leaver cannot wait for that, so
// it takes the pages of its receive buffer back. Peers in other processes therefore write only to receive buffers that
// share no page with other memory and that only this engine exports. For other buffers each rank writes only its own
// memory (combineApart).
//
// A late read is harmless, because the reader's request fails at its next phase.
const (
	// directFrom is the message size from which direct requests pay: they have one phase more than the smallest
	// requests and two copies fewer.
	directFrom = 8 << 10

	// tile is the number of bytes that a reduction processes at a time. It stays in the cache, with its parts of the
	// send buffers, until all ranks have their copy.
	tile = 2 << 10

	// Parts below spreadFrom are written to one rank after the other, in larger tiles. Their lines are in a cache, and
	// prefetching them would take lines from the rank that writes the next part.
	spreadFrom = 32 << 10
	smallTile  = 16 << 10

	// togetherFrom is the number of bytes read by all ranks from which they share out a reduction within one process
	// dynamically. Smaller requests stay in the processors' caches from one request to the next if each rank always
	// takes the same part.
	togetherFrom = 2 << 20

	// apartBytes is a rank's part of a piece that several processes combine: small enough for the processor's cache,
	// large enough to pay for its phase.
	apartBytes = 256 << 10

	// checkEvery is the number of bytes between checks of the fates. Copies of 1 MiB and more would be non-temporal.
	checkEvery = 256 << 10
)

// who is the set of ranks whose buffer a request needs: one rank, or one of the constants below.
type who int

const (
	nobody   who = -2
	everyone who = -1
)

func (w who) has(r int) bool { return w == everyone || int(w) == r }

// enter is step 1. direct is false if some rank cannot read all the required send buffers. push is false if some rank
// cannot write to all the receive buffers. Both are the same on all ranks. enter sets e.sendAt and e.recvAt to the
// addresses in this process.
func (o *op) enter(sends, recvs who, sendBytes, recvBytes int64) (direct, push bool, err error) {
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
				e.lent = lent{o.req.Recv, recvBytes}
			}
		}
		e.buffers.say()
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
	for r, w := range e.windows {
		d := w.desc(e.phase)
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

// unmapped is the error of a request that needs an entry of rank r's directory that is gone: r has left and took it along.
func (o *op) unmapped(r int) error {
	if o.e.gone(r) {
		return o.left(r)
	}
	return o.error(r, errors.New("the rank's directory entry is gone: its window was written over"))
}

// agreed reports whether all ranks have mapped the buffers of the ranks in of; number picks the entry from the
// published descriptor. All ranks read the same data, so they get the same result.
func (o *op) agreed(of who, number func(*descriptor) uint32) bool {
	e := o.e
	for r, w := range e.windows {
		if !of.has(r) {
			continue
		}
		need := number(w.desc(e.phase))
		if need == 0 {
			return false
		}
		for q, v := range e.windows {
			if q != r && v.known(e.phase)[r] < need {
				return false
			}
		}
	}
	return true
}

// anyInPlace reports whether some rank sends and receives in the same memory, by the descriptors of this phase.
func (o *op) anyInPlace() bool {
	for _, w := range o.e.windows {
		if d := w.desc(o.e.phase); d.send.address == d.recv.address {
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
	for r, w := range e.windows {
		if r != e.rank && w.fate().code.Load() != 0 {
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

// receivers returns the addresses in this process of the receive buffers of to.
func (o *op) receivers(to who) []device.Ptr {
	if to == everyone {
		return o.e.recvAt
	}
	return o.e.recvAt[to : to+1]
}

// combine reduces bytes [lo, hi) of all send buffers and writes the result, from off on, to each of dsts. No other rank
// reads the same bytes, so buffers may be in place.
func (o *op) combine(lo, hi, off int64, dsts []device.Ptr) error {
	e := o.e
	step := int64(tile)
	if hi-lo < spreadFrom {
		step = smallTile
	}
	for a := lo; a < hi; a += step {
		if (a-lo)%checkEvery == 0 {
			if err := o.check(); err != nil {
				return err
			}
		}
		b := min(hi, a+step)
		for r := range e.size {
			e.srcs[r] = device.Bytes(e.sendAt[r].Add(a), b-a)
		}
		result := e.tile[:b-a]
		if err := o.reduce(result, e.srcs); err != nil {
			return err
		}
		if hi-lo >= spreadFrom {
			spread(dsts, a-lo+off, result)
			continue
		}
		for k := range dsts { // start with this rank, to spread the writes over the ranks
			copy(device.Bytes(dsts[(e.rank+k)%len(dsts)].Add(a-lo+off), b-a), result)
		}
	}
	return nil
}

// combineApart reduces n bytes if ranks may write only their own memory. For each piece, each rank reduces its share
// into its slot. After one phase, the ranks of to copy all shares from the slots. A slot is reused two phases later.
// After the last phase no rank reads a send buffer any more.
func (o *op) combineApart(n int64, to who) error {
	e, elem := o.e, o.req.Type.Size()
	piece := apartBytes * int64(e.size)
	for at := int64(0); at < n; at += piece {
		m := min(piece, n-at)
		lo, hi := portion(m, e.rank, e.size, elem)
		e.slotAt[0] = bytesAt(o.slot())
		if err := o.combine(at+lo, at+hi, 0, e.slotAt[:]); err != nil {
			return err
		}
		if err := o.step(); err != nil {
			return err
		}
		for k := 0; k < e.size && to.has(e.rank); k++ {
			p := (e.rank + k) % e.size // start with this rank, to spread the reads over the windows
			lo, hi := portion(m, p, e.size, elem)
			copy(device.Bytes(o.req.Recv.Add(at+lo), hi-lo), o.peerSlot(p))
		}
	}
	return nil
}

// bytesAt is the address of b, which must be memory that does not move.
func bytesAt(b []byte) device.Ptr { return device.Ptr(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// combineTogether combines all n bytes by all ranks. In one process, the next free rank takes the next piece: there may
// be many more ranks than processors, and with a fixed share per rank one processor would be idle while another works
// on the last share. Separate processes have fixed shares, so that only one of them has each share in its page tables.
//
// Taken pieces are counted over the engine's life. A request counts each of its pieces and, for each rank, one
// nonexistent piece, at which that rank ends. All ranks thus know where the count of the next request begins. A request
// that fails counts less, but no other request follows it.
func (o *op) combineTogether(n int64, to who) error {
	e := o.e
	if !e.local || n*int64(e.size) < togetherFrom {
		lo, hi := portion(n, e.rank, e.size, o.req.Type.Size())
		return o.combine(lo, hi, lo, o.receivers(to))
	}
	size := pieceOf(n, e.size)
	pieces := uint64((n + size - 1) / size)
	first := e.taken
	e.taken += pieces + uint64(e.size)
	for {
		k := e.meeting.taken.Add(1) - 1 - first
		if k >= pieces {
			return nil
		}
		lo := int64(k) * size
		if err := o.combine(lo, min(n, lo+size), lo, o.receivers(to)); err != nil {
			return err
		}
	}
}

// pieceOf is the size of the pieces in which the given number of ranks combine n bytes: whole cache lines, a few pieces
// per rank but not too small, and at least one per rank.
func pieceOf(n int64, ranks int) int64 {
	each := (n + int64(ranks) - 1) / int64(ranks)
	return (min(each, max(8<<10, min(each/4, checkEvery))) + 63) &^ 63
}

// inPlace runs the request straight between the buffers if all ranks can. done is false if the request must be staged.
func (o *op) inPlace() (done bool, err error) {
	e, r := o.e, o.req
	each, n := r.Bytes(), int64(e.size)
	total, root := each, who(r.Root)
	sends, recvs := everyone, nobody
	sendBytes, recvBytes := each, each
	switch r.Collective {
	case algorithm.AllReduce:
		recvs = everyone
	case algorithm.Reduce:
		recvs = root
	case algorithm.ReduceScatter, algorithm.AllToAll:
		total, sendBytes = each*n, each*n
	case algorithm.AllGather:
		total, recvBytes = each*n, each*n
	case algorithm.Gather:
		total = each * n
	case algorithm.Scatter:
		total, sendBytes = each*n, each*n
		sends = root
	case algorithm.Broadcast:
		sends = root
	default:
		return false, nil
	}
	if !e.goesDirect(r.Collective, total) || r.Op == datatype.PreMulSum && reduces(r.Collective) {
		return false, nil
	}
	e.lent = lent{}
	done, push, err := o.enter(sends, recvs, sendBytes, recvBytes)
	if err != nil || !done {
		return false, err
	}
	if r.Collective == algorithm.AllToAll && o.anyInPlace() {
		return false, nil // every rank would overwrite data that a peer has yet to read
	}
	left, err := o.direct(each, push)
	if err != nil {
		return false, err
	}
	if left {
		return true, nil
	}
	return true, o.step()
}

func reduces(c algorithm.Collective) bool {
	return c == algorithm.AllReduce || c == algorithm.Reduce || c == algorithm.ReduceScatter
}

// direct is step 2. left is true if it includes step 3.
func (o *op) direct(each int64, push bool) (left bool, err error) {
	e, r := o.e, o.req
	moving := e.windows[e.rank].moving()
	moving.Store(1)
	defer moving.Store(0) // also after a fault on a buffer
	mine := int64(e.rank) * each
	switch r.Collective {
	case algorithm.AllReduce, algorithm.Reduce:
		to := everyone
		if r.Collective == algorithm.Reduce {
			to = who(r.Root)
		}
		if !push {
			return true, o.combineApart(each, to)
		}
		return false, o.combineTogether(each, to)
	case algorithm.ReduceScatter:
		return false, o.combine(mine, mine+each, 0, o.receivers(who(e.rank)))
	case algorithm.Broadcast:
		return false, o.move(r.Recv, e.sendAt[r.Root], each)
	case algorithm.Scatter:
		return false, o.move(r.Recv, e.sendAt[r.Root].Add(mine), each)
	case algorithm.Gather:
		switch {
		case e.local: // all at the same time; between processes the root reads instead
			return false, o.move(e.recvAt[r.Root].Add(mine), r.Send, each)
		case e.rank != r.Root:
			return false, nil
		}
	}
	for k := range e.size { // all-gather, all-to-all, the root of a gather
		p := (e.rank + k) % e.size
		from := e.sendAt[p]
		if r.Collective == algorithm.AllToAll {
			from = from.Add(mine)
		}
		if err := o.move(r.Recv.Add(int64(p)*each), from, each); err != nil {
			return false, err
		}
	}
	return false, nil
}
