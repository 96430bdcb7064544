package shm

import (
	"encoding/binary"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
)

// transfer is one message to or from a peer, and its progress.
type transfer struct {
	send bool
	peer int
	data []byte
	done int64
	over bool
}

// p2pState counts, for one peer, the pieces put into this rank's ring for it and the pieces taken from its ring. The
// counts continue from message to message.
type p2pState struct{ sent, taken uint64 }

func transfers(batch []collective.Request) []*transfer {
	out := make([]*transfer, len(batch))
	for i := range batch {
		r := &batch[i]
		t := &transfer{send: r.Collective == collective.Send, peer: r.Peer}
		if t.send {
			t.data = device.Bytes(r.Send, r.Bytes())
		} else {
			t.data = device.Bytes(r.Recv, r.Bytes())
		}
		out[i] = t
	}
	return out
}

func transfersV(r *collective.Request, n int) []*transfer {
	size := r.Type.Size()
	out := make([]*transfer, 0, 2*n)
	for p := range n {
		out = append(out,
			&transfer{send: true, peer: p, data: device.Bytes(r.Send.Add(r.SendDispls[p]*size), r.SendCounts[p]*size)},
			&transfer{peer: p, data: device.Bytes(r.Recv.Add(r.RecvDispls[p]*size), r.RecvCounts[p]*size)})
	}
	return out
}

// pointToPoint runs all transfers together. Messages between two ranks in one direction match in order. A message has
// one or more pieces (an empty message has one). Each piece carries the size of the whole message, so that a wrong
// count is detected before any byte is written.
//
//  0. All-to-all-v only: a phase in which all ranks publish how much they send and expect, so that both sides of a
//     mismatched pair detect it.
//  1. For the first transfer of each peer and direction: move pieces until the ring is full or empty.
//  2. If nothing moved, sleep at the door until a peer's counter changes.
func (o *op) pointToPoint(all []*transfer) error {
	e := o.e
	o.algorithm(e.recorded.rings)
	queues := make([][]*transfer, 2*e.size) // 2·peer + 1 for sends
	for _, t := range all {
		q := 2 * t.peer
		if t.send {
			q++
		}
		queues[q] = append(queues[q], t)
	}
	if !o.req.PointToPoint() {
		if err := o.compareCounts(); err != nil {
			return err
		}
	}
	if err := o.selfTransfers(queues); err != nil {
		return err
	}
	for {
		waitsFor, moved, err := o.advanceAll(queues)
		if err != nil || waitsFor < 0 {
			return err
		}
		if moved {
			continue
		}
		o.waitsFor = waitsFor
		left := -1 // a peer that can no longer become ready
		ready := func() (ok bool) {
			ok, left = o.ready(queues)
			return ok || left >= 0
		}
		e.recorded.waitsFor.Store(int64(waitsFor) + 1)
		err = wait.Until(e.arenas[e.rank].door(), ready, o.limit, e.policy)
		e.recorded.waitsFor.Store(0)
		if err != nil {
			return o.fail(waitsFor, err)
		}
		if left >= 0 {
			return o.left(left)
		}
	}
}

// advanceAll moves pieces of the first transfer of each queue, and then of the next ones while they end. It returns a
// peer that is still waited for, or -1 if all transfers have ended.
func (o *op) advanceAll(queues [][]*transfer) (waitsFor int, moved bool, err error) {
	waitsFor = -1
	for q := range queues {
		for len(queues[q]) > 0 {
			t := queues[q][0]
			m, err := o.advance(t)
			if err != nil {
				return t.peer, moved, err
			}
			moved = moved || m
			if !t.over {
				waitsFor = t.peer
				break
			}
			queues[q] = queues[q][1:]
		}
	}
	return waitsFor, moved, nil
}

// ready reports whether the first transfer of a queue can advance, or else returns a peer that has left, or -1. Data
// that a peer moved before it left counts.
func (o *op) ready(queues [][]*transfer) (ok bool, left int) {
	for _, queue := range queues {
		if len(queue) == 0 {
			continue
		}
		if t := queue[0]; o.canAdvance(t) {
			return true, -1
		} else if o.e.gone(t.peer) && !o.canAdvance(t) {
			return false, t.peer
		}
	}
	return false, -1
}

// compareCounts is the count phase of an all-to-all-v. A rank's slot holds the bytes it sends to each rank, then the
// bytes it expects from each.
func (o *op) compareCounts() error {
	e, r := o.e, o.req
	at := func(slot []byte, i int) []byte { return slot[8*i : 8*i+8] }
	for p := range e.size {
		binary.LittleEndian.PutUint64(at(o.slot(), p), uint64(r.SendCounts[p]))
		binary.LittleEndian.PutUint64(at(o.slot(), e.size+p), uint64(r.RecvCounts[p]))
	}
	if err := o.step(); err != nil {
		return err
	}
	for p := range e.size {
		sends := int64(binary.LittleEndian.Uint64(at(o.peerSlot(p), e.rank)))
		expects := int64(binary.LittleEndian.Uint64(at(o.peerSlot(p), e.size+e.rank)))
		if sends != r.RecvCounts[p] || expects != r.SendCounts[p] {
			return o.error(p, fmt.Errorf("%w: rank %d sends %d elements here and expects %d; this rank expects %d and sends %d",
				collective.ErrMismatch, e.global(p), sends, expects, r.RecvCounts[p], r.SendCounts[p]))
		}
	}
	return nil
}

// selfTransfers copies messages of a rank to itself: the k-th send matches the k-th receive.
func (o *op) selfTransfers(queues [][]*transfer) error {
	e := o.e
	recvs, sends := queues[2*e.rank], queues[2*e.rank+1]
	if len(recvs) != len(sends) {
		return o.error(e.rank, fmt.Errorf("%w: %d sends and %d receives of a rank to itself in one group",
			collective.ErrInvalidUsage, len(sends), len(recvs)))
	}
	for i, s := range sends {
		if len(s.data) != len(recvs[i].data) {
			return o.error(e.rank, fmt.Errorf("%w: a rank sends itself %d bytes and receives %d",
				collective.ErrMismatch, len(s.data), len(recvs[i].data)))
		}
		copy(recvs[i].data, s.data)
	}
	queues[2*e.rank], queues[2*e.rank+1] = nil, nil
	return nil
}

func (o *op) canAdvance(t *transfer) bool {
	e := o.e
	if t.send {
		return e.moved[t.peer].sent-e.arenas[e.rank].taken(t.peer).Load() < ringPieces
	}
	return e.arenas[t.peer].sent(e.rank).Load() != e.moved[t.peer].taken
}

// advance moves pieces until the message ends or the ring is full or empty.
func (o *op) advance(t *transfer) (moved bool, err error) {
	e := o.e
	st := &e.moved[t.peer]
	for !t.over && o.canAdvance(t) {
		moved = true
		if t.send {
			b := e.arenas[e.rank].piece(t.peer, st.sent)
			n := min(int64(len(b)-pieceHeader), int64(len(t.data))-t.done)
			copy(b[pieceHeader:], t.data[t.done:t.done+n])
			putHeader(b, int64(len(t.data)), n)
			st.sent++
			e.arenas[e.rank].sent(t.peer).Store(st.sent)
			t.done += n
		} else {
			b := e.arenas[t.peer].piece(e.rank, st.taken)
			message, n := getHeader(b)
			if message != int64(len(t.data)) || n > int64(len(b)-pieceHeader) || t.done+n > int64(len(t.data)) {
				return moved, o.error(t.peer, fmt.Errorf("%w: rank %d sends %d bytes, this rank receives %d",
					collective.ErrMismatch, e.global(t.peer), message, len(t.data)))
			}
			copy(t.data[t.done:t.done+n], b[pieceHeader:])
			st.taken++
			e.arenas[t.peer].taken(e.rank).Store(st.taken)
			t.done += n
		}
		e.arenas[t.peer].door().Wake()
		t.over = t.done == int64(len(t.data))
	}
	return moved, nil
}
