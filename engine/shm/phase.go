package shm

import (
	"errors"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/wait"
)

// op is a running request.
type op struct {
	e     *Engine
	seq   uint64
	req   *collective.Request
	limit wait.Limit
	sig   uint64

	waitsFor int // for a send or receive: the peer that it waits for

	send, recv place // descriptions of the buffers, for peers; only in requests that may be direct
	entered    bool  // e.sendAt and e.recvAt belong to this request
}

// publish ends the writes of a phase. A rank that sees the meeting's counter sees the slot and the descriptor.
func (o *op) publish() {
	e := o.e
	mine, m := e.arenas[e.rank], e.meeting
	d := mine.desc(e.phase + 1)
	d.signature, d.seq, d.send, d.recv = o.sig, o.seq, o.send, o.recv
	e.phase++
	m.released()
	m.sums[e.phase&1].Add(o.sig)
	mine.phase().Store(e.phase)
	if m.arrived.AddSilent(1) == e.everybody() {
		m.arrived.Wake()
	}
}

// everybody is the value of the meeting's counter when all ranks have published the current phase. No rank publishes
// the next phase before.
func (e *Engine) everybody() uint64 { return uint64(e.size) * e.phase }

// arrive waits until every rank has published the current phase, and checks that all run the same operation.
func (o *op) arrive() error {
	e, m := o.e, o.e.meeting
	left := -1 // a rank that has left
	here := func() bool {
		if m.arrived.Reached(e.everybody()) {
			return true
		}
		if m.left.Load() == 0 {
			return false
		}
		left = e.anyGone()
		return left >= 0
	}
	if err := wait.Until(&m.arrived, here, o.limit, e.policy); err != nil {
		return o.fail(e.behind(), err)
	}
	m.acquired()
	if left >= 0 {
		return o.left(left)
	}
	if m.left.Load() != 0 {
		for r := range e.size {
			if e.gone(r) && o.abandoned(r) {
				return o.left(r)
			}
		}
	}
	parity := e.phase & 1
	e.sums[parity] += uint64(e.size) * o.sig
	if m.sums[parity].Load() != e.sums[parity] {
		return o.mismatch()
	}
	return nil
}

// behind returns a rank that has not published the current phase, or -1.
func (e *Engine) behind() int {
	for r, a := range e.arenas {
		if a.phase().Load() < e.phase {
			return r
		}
	}
	return -1
}

// mismatch finds a rank that runs another operation.
func (o *op) mismatch() error {
	for r, a := range o.e.arenas {
		if d := a.desc(o.e.phase); d.signature != o.sig {
			return o.error(r, fmt.Errorf("%w: rank %d is in its operation #%d, which differs in collective, count, type, "+
				"operator or root from %s of %d × %v here",
				collective.ErrMismatch, o.e.global(r), d.seq, o.req.Collective, o.req.Count, o.req.Type))
		}
	}
	return o.error(-1, fmt.Errorf("%w: ranks differ in an earlier operation than %s of %d × %v here",
		collective.ErrMismatch, o.req.Collective, o.req.Count, o.req.Type))
}

// step is publish and arrive.
func (o *op) step() error {
	o.publish()
	return o.arrive()
}

// slot is this rank's slot for the phase of the next publish; its last readers finished two phases ago.
func (o *op) slot() []byte { return o.e.arenas[o.e.rank].slot(o.e.phase + 1) }

// peerSlot is the slot that rank r published in the current phase.
func (o *op) peerSlot(r int) []byte { return o.e.arenas[r].slot(o.e.phase) }

// fail turns the failure of a wait for peer into an error of the request.
func (o *op) fail(peer int, err error) error {
	if errors.Is(err, wait.ErrTimeout) && peer >= 0 {
		return o.error(peer, fmt.Errorf("%w: rank %d has not come within %v (it reached phase %d, this rank %d)",
			collective.ErrTimeout, o.e.global(peer), o.e.timeout,
			o.e.arenas[peer].phase().Load(), o.e.phase))
	}
	if cause := o.e.aborted.Err(); cause != nil {
		if ae := fault.Of(cause); ae != nil {
			e := o.named(ae.Peer, ae.Err)
			e.Verdict = ae.Verdict
			return e
		}
		return o.error(-1, fmt.Errorf("%w: %w", collective.ErrAborted, cause))
	}
	return o.error(peer, err)
}

func (o *op) error(peer int, err error) error { return o.named(o.e.global(peer), err) }

// named is an error that blames a peer by its number in errors.
func (o *op) named(peer int, err error) *collective.Error {
	e := &collective.Error{Comm: o.e.name, Op: o.req.Called().String(), Rank: o.e.global(o.e.rank), Peer: peer,
		Seq: o.seq, Err: err}
	if o.e.explain != nil {
		e.Verdict = o.e.explain(e)
	}
	return e
}
