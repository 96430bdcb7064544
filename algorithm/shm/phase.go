package shm

import (
	"errors"
	"fmt"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/internal/wait"
)

// op is one request while it runs.
type op struct {
	e     *Engine
	seq   uint64
	req   *algorithm.Request
	limit wait.Limit
	sig   uint64
}

// publish ends the writing of a phase: the slot and the descriptor are seen by whoever sees the counter.
func (o *op) publish() {
	e := o.e
	mine := e.windows[e.rank]
	d := mine.desc(e.phase + 1)
	d.signature, d.seq, d.send, d.recv = o.sig, o.seq, uint64(o.req.Send), uint64(o.req.Recv)
	e.phase++
	mine.phase().Store(e.phase)
	for r, w := range e.windows {
		if r != e.rank {
			w.door().Wake()
		}
	}
}

// arrive waits until every rank has published the current phase and checks that all mean the same operation.
func (o *op) arrive() error {
	e := o.e
	behind, left := 0, -1 // all ranks before behind have arrived; left: a rank that takes part no more
	here := func() bool {
		for ; behind < e.size; behind++ {
			if behind == e.rank || e.windows[behind].phase().Reached(e.phase) {
				continue
			}
			left = e.anyGone()
			return left >= 0
		}
		return true
	}
	if err := wait.Until(e.windows[e.rank].door(), here, o.limit, e.policy); err != nil {
		return o.fail(behind, err)
	}
	if left >= 0 {
		return o.left(left)
	}
	for r, w := range e.windows {
		if e.gone(r) && o.abandoned(r) {
			return o.left(r)
		}
		if d := w.desc(e.phase); d.signature != o.sig {
			return o.error(r, fmt.Errorf("%w: rank %d is in its operation #%d, which differs in collective, count, type, operator or root from %s of %d × %v here",
				algorithm.ErrMismatch, r, d.seq, o.req.Collective, o.req.Count, o.req.Type))
		}
	}
	return nil
}

// step is publish and arrive.
func (o *op) step() error {
	o.publish()
	return o.arrive()
}

// slot is this rank's slot for the phase that the next publish announces; its last readers were done two phases ago.
func (o *op) slot() []byte { return o.e.windows[o.e.rank].slot(o.e.phase + 1) }

// peerSlot is what rank r published in the current phase.
func (o *op) peerSlot(r int) []byte { return o.e.windows[r].slot(o.e.phase) }

// fail turns the end of a wait for peer into an error of the request.
func (o *op) fail(peer int, err error) error {
	if errors.Is(err, wait.ErrTimeout) {
		return o.error(peer, fmt.Errorf("%w: rank %d has not come within %v (it reached phase %d, this rank %d)", algorithm.ErrTimeout, peer, o.e.timeout,
			o.e.windows[peer].phase().Load(), o.e.phase))
	}
	if cause := o.e.aborted.Load(); cause != nil {
		var ae *algorithm.Error
		if errors.As(*cause, &ae) {
			return o.error(ae.Peer, ae.Err)
		}
		return o.error(-1, fmt.Errorf("%w: %w", algorithm.ErrAborted, *cause))
	}
	return o.error(peer, err)
}

func (o *op) error(peer int, err error) error {
	return &algorithm.Error{Op: o.req.Collective.String(), Rank: o.e.rank, Peer: peer, Seq: o.seq, Err: err}
}

// signature is a number that differs when two ranks do not mean the same collective. The seed is fixed by the layout of its input, so that
// processes agree; FNV-1a over the fields.
func signature(r *algorithm.Request) uint64 {
	h := uint64(14695981039346656037)
	for _, v := range [...]uint64{uint64(r.Collective), uint64(r.Count), uint64(r.Type), uint64(r.Op), uint64(r.Root)} {
		for range 8 {
			h = (h ^ v&0xff) * 1099511628211
			v >>= 8
		}
	}
	return h
}
