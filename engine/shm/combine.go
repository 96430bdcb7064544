package shm

import (
	"unsafe"

	"github.com/goccl/goccl/device"
)

const (
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
)

// receivers returns the addresses in this process of the receive buffers of to.
func (o *op) receivers(to rankSet) []device.Ptr {
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

// combineApart reduces n bytes to recv if ranks may write only their own memory. For each piece, each rank reduces its
// share into its slot. After one phase, the ranks of to copy all shares from the slots. A slot is reused two phases
// later. After the last phase no rank reads a send buffer any more.
func (o *op) combineApart(recv device.Ptr, n, piece int64, to rankSet) error {
	e, elem := o.e, o.req.Type.Size()
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
			p := (e.rank + k) % e.size // start with this rank, to spread the reads over the arenas
			lo, hi := portion(m, p, e.size, elem)
			copy(device.Bytes(recv.Add(at+lo), hi-lo), o.peerSlot(p))
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
func (o *op) combineTogether(n int64, to rankSet) error {
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
