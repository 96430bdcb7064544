package executor

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/wait"
)

// ticket is a launch in flight.
type ticket struct {
	h *hostEngine
	launch
	scratch *scratch
	workers int
	kernel  func(*host.Block) error // t.execute, bound once
}

func (t *ticket) execute(b *host.Block) error {
	seq, returned := t.Seq, false
	defer func() {
		if !returned { // such as for an unmapped buffer: the stream reports the panic; no rank may wait for this launch
			t.h.x.e.Abort(t.h.x.fail(seq, -1, fmt.Errorf("%w: the launch panicked", collective.ErrAborted)))
			t.h.quit()
		}
	}()
	err := t.perform(b)
	returned = true
	return err
}

func (t *ticket) perform(b *host.Block) error {
	h := t.h
	if b.Index == 0 {
		if err := t.begin(); err != nil {
			return err
		}
		defer h.leave()
	}
	if b.Count == 1 {
		return t.end(h.run.work(b))
	}
	if err := b.Barrier(); err != nil {
		return err
	}
	err := h.run.work(b)
	if err != nil {
		err = h.run.failed(err)
	}
	if e := b.Barrier(); err == nil {
		err = e
	}
	if b.Index != 0 {
		return err
	}
	if err == nil && h.run.broken.Load() { // another worker names the failure: peers must leave this rank's buffers
		err = h.x.e.cause.Err()
	}
	return t.end(err)
}

// begin performs steps 1 and 2. On success the caller must call h.leave.
func (t *ticket) begin() error {
	h := t.h
	e := h.x.e
	if !h.enter() {
		return e.ended(wait.ErrAborted, "it had not begun")
	}
	begun := false
	defer func() {
		if !begun { // also when an access to the caller's buffers panics
			h.leave()
		}
	}()
	r := h.run
	r.launch, r.scratch, r.workers = t.launch, t.scratch, t.workers
	r.limit = wait.Limit{Deadline: wait.After(e.cfg.OpTimeout), Abort: &e.aborted, Stall: h.stall}
	if err := r.begin(); err != nil {
		err = h.x.fail(t.Seq, -1, err)
		e.Abort(err)
		return err
	}
	begun = true
	return nil
}

// end is step 4.
func (t *ticket) end(err error) error {
	h, r := t.h, t.h.run
	if err == nil && h.remote != nil {
		err = h.remote.settle()
	}
	if err == nil {
		err = r.finish()
	}
	if err != nil {
		err = r.failed(err)
		h.quit()
		err = errors.Join(err, r.revoke())
	}
	runtime.KeepAlive(r.Stream)
	r.launch = launch{}
	t.launch = launch{}
	h.tickets.Put(t)
	return err
}
