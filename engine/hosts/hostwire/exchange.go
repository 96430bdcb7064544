package hostwire

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/links"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/internal/wait"
)

// exchange is a running phase.
type exchange struct {
	w     *Wire
	op    wire.Op
	ph    *wire.Phase
	limit wait.Limit

	out  []outgoing
	in   []incoming
	sums []sum
	open int // messages and reductions that have not ended

	srcs [][]byte
}

// outgoing are the messages to one peer, in order.
type outgoing struct {
	p     *peer
	parts []wire.Part
	done  int64 // bytes of the first part
}

// incoming is what one peer sends, in order: messages to copy, then messages of reductions.
type incoming struct {
	p     *peer
	parts []wire.Part
	done  int64
	sums  []int // indices of reductions
}

// sum is the progress of a reduction.
type sum struct {
	*wire.Reduction
	done int64
	over bool
}

// linkGrace is how long a broken link waits for the communicator's own report of the peer's death, which blames the
// right rank.
const linkGrace = 300 * time.Millisecond

// run polls all messages until they have ended.
func (x *exchange) run() error {
	if x.ph.Fill != nil {
		if err := x.ph.Fill(x.ph); err != nil {
			return x.w.error(x.op, -1, err)
		}
	}
	x.prepare()
	for x.open > 0 {
		seen := x.w.bell.Load()
		moved := false
		for i := range x.out {
			m, err := x.send(&x.out[i])
			if err != nil {
				return err
			}
			moved = moved || m
		}
		for i := range x.in {
			m, err := x.receive(&x.in[i])
			if err != nil {
				return err
			}
			moved = moved || m
		}
		for i := range x.sums {
			m, err := x.reduce(i)
			if err != nil {
				return err
			}
			moved = moved || m
		}
		if moved || x.open == 0 {
			continue
		}
		if err := x.broken(); err != nil {
			return err
		}
		changed := func() bool { return x.w.bell.Load() != seen }
		if err := wait.Until(&x.w.bell, changed, x.limit, x.w.policy); err != nil {
			if errors.Is(err, wait.ErrTimeout) { // the peer may wait for another one, and say so now
				if ended := x.ended(); ended != nil {
					return ended
				}
			}
			return x.fail(x.waitsFor(), err)
		}
	}
	return nil
}

// prepare sorts the messages by peer.
func (x *exchange) prepare() {
	to, from := map[int]int{}, map[int]int{}
	for _, m := range x.ph.Sends {
		i, ok := to[m.Peer]
		if !ok {
			i = len(x.out)
			to[m.Peer] = i
			x.out = append(x.out, outgoing{p: x.w.peers[m.Peer]})
		}
		x.out[i].parts = append(x.out[i].parts, m)
	}
	source := func(peer int) *incoming {
		i, ok := from[peer]
		if !ok {
			i = len(x.in)
			from[peer] = i
			x.in = append(x.in, incoming{p: x.w.peers[peer]})
		}
		return &x.in[i]
	}
	for _, m := range x.ph.Recvs {
		in := source(m.Peer)
		in.parts = append(in.parts, m)
	}
	for i := range x.ph.Reduces {
		r := &x.ph.Reduces[i]
		x.sums = append(x.sums, sum{Reduction: r})
		for _, p := range r.Peers {
			if _, here := r.At(p, x.w.rank); !here {
				in := source(p)
				in.sums = append(in.sums, i)
			}
		}
	}
	x.open = len(x.ph.Sends) + len(x.ph.Recvs) + len(x.sums)
}

// send puts pieces while the peer has room.
func (x *exchange) send(o *outgoing) (moved bool, err error) {
	for len(o.parts) > 0 && o.p.room() {
		m := &o.parts[0]
		n := min(m.Bytes-o.done, o.p.remoteSlot-headerBytes)
		if err := o.p.put(header{x.op.Tag, uint64(m.Bytes), uint64(n)}, device.Bytes(m.Ptr.Add(o.done), n)); err != nil {
			return moved, x.lost(o.p, err)
		}
		moved = true
		if o.done += n; o.done == m.Bytes {
			o.parts, o.done = o.parts[1:], 0
			x.open--
		}
	}
	return moved, nil
}

// receive copies pieces that have arrived.
func (x *exchange) receive(in *incoming) (moved bool, err error) {
	for len(in.parts) > 0 {
		b := in.p.piece()
		if b == nil {
			return moved, nil
		}
		m := &in.parts[0]
		n := min(m.Bytes-in.done, in.p.slot-headerBytes)
		if err := x.expect(in.p, b, m.Bytes, n); err != nil {
			return moved, err
		}
		copy(device.Bytes(m.Ptr.Add(in.done), n), b[headerBytes:])
		in.p.free()
		moved = true
		if in.done += n; in.done == m.Bytes {
			in.parts, in.done = in.parts[1:], 0
			x.open--
		}
	}
	return moved, nil
}

// reduce combines pieces of reduction i that have arrived from all of its peers. The slots of all inboxes have one
// size, so the peers cut their messages at the same places.
func (x *exchange) reduce(i int) (moved bool, err error) {
	s := &x.sums[i]
	total := s.Count * s.Type.Size()
	for !s.over {
		n := min(total-s.done, x.w.slot-headerBytes)
		x.srcs = x.srcs[:0]
		for _, r := range s.Peers {
			if at, here := s.At(r, x.w.rank); here {
				x.srcs = append(x.srcs, device.Bytes(at.Add(s.done), n))
				continue
			}
			in := x.from(r)
			if len(in.parts) > 0 || in.sums[0] != i {
				return moved, nil
			}
			b := in.p.piece()
			if b == nil {
				return moved, nil
			}
			if err := x.expect(in.p, b, total, n); err != nil {
				return moved, err
			}
			x.srcs = append(x.srcs, b[headerBytes:headerBytes+n])
		}
		dst := device.Bytes(s.Dst.Add(s.done), n)
		op := s.Op
		if s.Scaled {
			op = datatype.Sum
		}
		if err := hostreduce.Reduce(dst, x.srcs, s.Type, op, [8]byte{}, s.Ranks); err != nil {
			return moved, x.w.error(x.op, -1, err)
		}
		if s.Scaled {
			hostreduce.EndAverage(dst, s.Type, s.Ranks)
		}
		moved = true
		s.done += n
		s.over = s.done == total
		for _, r := range s.Peers {
			if _, here := s.At(r, x.w.rank); here {
				continue
			}
			in := x.from(r)
			if s.over {
				in.sums = in.sums[1:]
			}
			in.p.free()
		}
	}
	if moved {
		x.open--
	}
	return moved, nil
}

func (x *exchange) from(rank int) *incoming {
	for i := range x.in {
		if x.in[i].p.rank == rank {
			return &x.in[i]
		}
	}
	panic(fmt.Sprintf("hostwire: a reduction without a source %d", rank)) // prepare makes one for each
}

// expect compares the header of a piece with what this rank waits for.
func (x *exchange) expect(p *peer, b []byte, total, n int64) error {
	h := plain.Read[header](b)
	if h.op == x.op.Tag && h.total == uint64(total) && h.piece == uint64(n) {
		return nil
	}
	if h.op != x.op.Tag {
		return x.w.error(x.op, p.rank, fmt.Errorf("%w: rank %d is in another operation than %s #%d here",
			collective.ErrMismatch, p.rank, x.op.Name, x.op.Seq))
	}
	return x.w.error(x.op, p.rank, fmt.Errorf("%w: rank %d sends %d bytes, this rank expects %d", collective.ErrMismatch,
		p.rank, h.total, total))
}

// waitsFor is a peer with which a message has not ended.
func (x *exchange) waitsFor() int {
	for _, in := range x.in {
		if (len(in.parts) > 0 || len(in.sums) > 0) && in.p.piece() == nil {
			return in.p.rank
		}
	}
	for _, o := range x.out {
		if len(o.parts) > 0 {
			return o.p.rank
		}
	}
	return -1
}

// warn logs that the phase has waited long.
func (x *exchange) warn() {
	slog.Warn("an operation waits long for a peer on another host: is that one in the same operation? "+
		"GOCCL_OP_TIMEOUT ends the wait", "op", x.op.Name, "seq", x.op.Seq, "rank", x.w.rank,
		"waits_for", x.waitsFor(), "for", x.w.stall, "communicator", x.w.name)
}

// broken returns the error of a link that the phase still needs and that can deliver nothing more.
func (x *exchange) broken() error {
	check := func(p *peer) error {
		select {
		case <-p.t.Failed():
			return x.lost(p, p.t.Err())
		default:
			return nil
		}
	}
	for _, o := range x.out {
		if len(o.parts) > 0 {
			if err := check(o.p); err != nil {
				return err
			}
		}
	}
	for _, in := range x.in {
		if (len(in.parts) > 0 || len(in.sums) > 0) && in.p.piece() == nil {
			if err := check(in.p); err != nil {
				return err
			}
		}
	}
	return nil
}

// ended waits until the communicator ends, but not longer than the grace, and returns the error of that end.
func (x *exchange) ended() error {
	limit := wait.Limit{Deadline: wait.After(linkGrace), Abort: &x.w.abort}
	if err := wait.Until(&x.w.bell, func() bool { return false }, limit, x.w.policy); errors.Is(err, wait.ErrAborted) {
		return x.fail(-1, err)
	}
	return nil
}

// lost is the error of a broken link.
func (x *exchange) lost(p *peer, err error) error {
	if ended := x.ended(); ended != nil {
		return ended
	}
	return x.w.error(x.op, p.rank, links.Kind(fmt.Errorf("the %s link to rank %d broke: %w", x.w.net, p.rank, err)))
}

// fail turns the failure of a wait into an error of the operation.
func (x *exchange) fail(peer int, err error) error {
	if cause := x.w.aborted.Err(); cause != nil {
		if ce := fault.Of(cause); ce != nil {
			return x.w.error(x.op, ce.Peer, ce.Err)
		}
		return x.w.error(x.op, -1, fmt.Errorf("%w: %w", collective.ErrAborted, cause))
	}
	if errors.Is(err, wait.ErrTimeout) {
		return x.w.error(x.op, peer, fmt.Errorf("%w: rank %d, on another host, has not come within %v (%s link)",
			collective.ErrTimeout, peer, x.w.timeout, x.w.net))
	}
	return x.w.error(x.op, peer, err)
}
