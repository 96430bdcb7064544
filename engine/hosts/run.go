package hosts

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/wire"
)

// run enqueues a collective, or a group of sends and receives, on s.
func (e *Engine) run(s device.Stream, seq uint64, reqs []collective.Request) error {
	r := &reqs[0]
	op := wire.Op{Name: r.Called().String(), Seq: seq}
	switch r.Collective {
	case collective.Send, collective.Recv:
		return e.pairs(s, op, reqs)
	case collective.AllToAllV, collective.AllToAllVDevice:
		return e.allToAllV(s, op, r)
	}
	op.Tag = signature(r, seq)
	b := builder{topology: e.topology, r: r, inPlace: e.inPlace, crowded: e.crowded, rules: e.rules,
		exact: (e.exact || r.Exact >= collective.ExactPlacement) && e.rails > 1 && r.Ordered()}
	if b.exact && e.scaler == nil && r.Op == datatype.PreMulSum {
		return e.error(r, seq, fmt.Errorf("%w: a pre-multiplied sum across hosts that asks for %v by itself: ask for the "+
			"communicator (Config.Exact, GOCCL_EXACT)", collective.ErrUnsupported, r.Exact))
	}
	if r.Collective != collective.Barrier {
		b.elem = r.Type.Size()
	}
	var err error
	if b.scratch, b.room, err = e.scratch.areas(r.Count * b.elem * int64(e.size())); err != nil {
		err = e.error(r, seq, err)
		e.fail(err) // the peers would wait
		return err
	}
	if b.exact || b.straight() {
		if err := e.connectAll(); err != nil {
			return err
		}
	}
	chunks, err := b.build()
	if err != nil {
		return e.error(r, seq, err)
	}
	if len(chunks) > 1 && !e.crowded {
		return e.pipeline(s, op, chunks)
	}
	for _, c := range chunks {
		if err := e.chain(s, op, c); err != nil {
			return err
		}
	}
	return nil
}

// Crowded says whether a process must not have three streams for each of its ranks on a GPU: the caller's, the side
// stream and the local engine's. All streams of a context go through 8 hardware queues (CUDA_DEVICE_MAX_CONNECTIONS).
// In a queue a kernel waits for those before it, and kernels of these ranks wait for each other: a rank that is ahead
// can stand in the way of the kernel that it waits for. One rank on each GPU is safe whatever shares a queue: a kernel
// waits only for kernels that are earlier in the order of the calls, which is the same on all ranks.
func Crowded(ranks int) bool { return ranks > 1 && 3*ranks > 8 }

// chain enqueues a chunk on one stream, except for work that may run beside its phases.
func (e *Engine) chain(s device.Stream, op wire.Op, c *chunk) error {
	if err := e.work(s, op, c.before); err != nil {
		return err
	}
	if len(c.beside) > 0 && len(c.phases) > 0 && !e.crowded {
		if err := e.both(s, op, c); err != nil {
			return err
		}
		return e.work(s, op, c.after)
	}
	if err := e.exchange(s, op, c.phases); err != nil {
		return err
	}
	if err := e.work(s, op, c.beside); err != nil {
		return err
	}
	return e.work(s, op, c.after)
}

// both enqueues a chunk's phases on s, and the work beside them on the side stream. The phases take longer, so they are
// on the stream where no event of another stream is between them and the work before and after.
func (e *Engine) both(s device.Stream, op wire.Op, c *chunk) error {
	if err := e.fork(s); err != nil {
		return err
	}
	begun, err := s.Record()
	if err != nil {
		return err
	}
	if err := errors.Join(e.exchange(s, op, c.phases), e.side.WaitEvent(begun), begun.Close()); err != nil {
		return err
	}
	if err := e.work(e.side, op, c.beside); err != nil {
		return err
	}
	return device.Join(s, e.side)
}

// pipeline enqueues chunks on s and on the side stream, between which events pass:
//
//	s     before(0) before(1) beside(0) after(0) before(2) beside(1) after(1) ...
//	side            phases(0)           phases(1)                    ...
//
// before(k+2) follows after(k), and therefore phases(k), so two areas of scratch suffice.
func (e *Engine) pipeline(s device.Stream, op wire.Op, chunks []*chunk) error {
	if err := e.fork(s); err != nil {
		return err
	}
	finish := func(c *chunk) error {
		if err := e.work(s, op, c.beside); err != nil {
			return err
		}
		if err := device.Join(s, e.side); err != nil {
			return err
		}
		return e.work(s, op, c.after)
	}
	for k, c := range chunks {
		if err := e.work(s, op, c.before); err != nil {
			return err
		}
		begun, err := s.Record()
		if err != nil {
			return err
		}
		if k > 0 {
			if err := finish(chunks[k-1]); err != nil {
				return err
			}
		}
		if err := e.side.WaitEvent(begun); err != nil {
			return err
		}
		if err := begun.Close(); err != nil {
			return err
		}
		if err := e.exchange(e.side, op, c.phases); err != nil {
			return err
		}
	}
	return finish(chunks[len(chunks)-1])
}

// fork makes a side stream that work on s can fork to.
func (e *Engine) fork(s device.Stream) (err error) {
	if e.side != nil {
		if ok, err := e.order.Forks(s, e.side); ok || err != nil {
			return err
		}
		e.retired = append(e.retired, e.side)
	}
	e.side, err = e.dev.NewStream()
	return err
}

func (e *Engine) exchange(s device.Stream, op wire.Op, phases []*wire.Phase) error {
	for _, p := range phases {
		if err := e.wire.Run(s, op, p); err != nil {
			e.fail(err) // the peers would wait
			return err
		}
	}
	return nil
}

func (e *Engine) work(s device.Stream, op wire.Op, list []work) error {
	for _, w := range list {
		for _, c := range w.copies {
			if err := e.copy(s, op, c); err != nil {
				return err
			}
		}
		if err := enqueue(e.scaler, s, op, w.scales); err != nil {
			return err
		}
		if err := enqueue(e.local, s, op, w.reqs); err != nil {
			return err
		}
	}
	return nil
}

func enqueue(to collective.Engine, s device.Stream, op wire.Op, reqs []collective.Request) error {
	if len(reqs) == 0 {
		return nil
	}
	for i := range reqs {
		reqs[i].Stream = s
	}
	return to.Enqueue(op.Seq, reqs)
}

// pairs runs a group of sends and receives: those inside the host and those between hosts at the same time, because
// either may wait for a peer that waits for the other.
func (e *Engine) pairs(s device.Stream, op wire.Op, reqs []collective.Request) error {
	var inside []collective.Request
	p := &wire.Phase{}
	var peers []int
	for i := range reqs {
		r := reqs[i]
		switch {
		case e.host[r.Peer] == e.here():
			r.Peer = e.topology.local[r.Peer]
			inside = append(inside, r)
			continue
		case r.Collective == collective.Send:
			p.Sends = append(p.Sends, send(r.Peer, r.Send, r.Bytes()))
		default:
			p.Recvs = append(p.Recvs, send(r.Peer, r.Recv, r.Bytes()))
		}
		peers = append(peers, r.Peer)
	}
	if err := e.wire.Connect(context.Background(), peers); err != nil {
		return err
	}
	c := &chunk{}
	do(&c.beside, inside...)
	c.phase(p)
	if e.crowded && len(inside) > 0 && !p.IsEmpty() {
		err := e.error(&reqs[0], op.Seq, fmt.Errorf("%w: a group with messages inside of the host and to other hosts, "+
			"whose two kernels run at the same time, where several ranks of a process share a GPU: give each rank a process",
			collective.ErrUnsupported))
		e.fail(err) // the peers would wait
		return err
	}
	return e.chain(s, op, c)
}

// signature is not 0, and differs if two ranks run different collectives.
func signature(r *collective.Request, seq uint64) uint64 {
	return r.Signature() ^ seq*0x94d049bb133111eb | 1
}
