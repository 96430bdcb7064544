package goccl

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/collective/fault"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/engine"
	"github.com/goccl/goccl/watch/record"
)

// numbered returns the job's numbers of some ranks of a communicator whose own ranks have the given numbers in the job;
// nil: their own.
func numbered(job, ranks []int) []int {
	out, same := make([]int, len(ranks)), true
	for i, r := range ranks {
		if out[i] = r; r < len(job) {
			out[i] = job[r]
		}
		same = same && out[i] == i
	}
	if same {
		return nil
	}
	return out
}

// startRecords begins the records of the communicator. The caller has its id.
func (c *Comm) startRecords() {
	c.record = record.Open(record.Meta{ID: c.id, Name: c.cfg.Name, Rank: c.rank, Size: c.size, Ranks: c.cfg.ranks,
		Device: c.dev.ID().String()}, record.Options{Entries: c.cfg.settings.Record, Folder: c.cfg.settings.RecordDir,
		Signal: c.cfg.settings.RecordSignal})
}

func (c *Comm) stopRecords(failed bool) { c.record.Close(failed) }

// observe starts the watch over operations that take long. The engine exists.
func (c *Comm) observe(kind string) {
	c.record.SetEngine(kind)
	c.stamps = kind != engine.EngineOfHost && c.stream0 == nil
	if c.record == nil || c.size == 1 {
		return
	}
	c.watchdog = newWatchdog(c)
	w := &record.Watch{After: c.cfg.settings.VerdictAfter, Long: c.watchdog.long, Over: c.watchdog.over,
		Window: c.watchdog.window}
	if c.cfg.OpTimeout > 0 && w.After > 0 {
		w.After = min(w.After, c.cfg.OpTimeout/2)
	}
	if e, ok := c.engine.(interface{ Waits() []record.Wait }); ok {
		w.Waits = e.Waits
	}
	if e, ok := c.engine.(marker); ok && c.stream0 != nil {
		w.Passed, c.marker = e.RecordPassed, e
	}
	c.record.Observe(w)
}

// explain returns the verdict on an operation that fails with err, nil if there is none. The engine calls it.
func (c *Comm) explain(err *Error) *Verdict {
	switch {
	case errors.Is(err.Err, ErrPeerDead) && err.Peer >= 0:
		return c.group.Dead(err.Peer)
	case errors.Is(err.Err, ErrTimeout):
		return c.record.VerdictOn(isMessage(err), err.Seq)
	case errors.Is(err.Err, ErrMismatch) && c.watchdog != nil:
		return c.watchdog.mismatch(err)
	}
	return nil
}

// isMessage reports whether err is of a send or receive. These have numbers apart from those of collectives.
func isMessage(err *Error) bool {
	return err.Op == collective.Send.String() || err.Op == collective.Recv.String()
}

// explainLate is explain across hosts, where a rank that another one waits for may wait itself, with the same deadline.
// If the ranks have found that a third one is dead or stopped, or has not called the operation, err blames it instead,
// and also if the communicator ends meanwhile because of a third one.
func (c *Comm) explainLate(err *Error) *Verdict {
	v := c.explain(err)
	if !errors.Is(err.Err, ErrTimeout) {
		return v
	}
	if v == nil {
		v = c.watchdog.late(err)
	}
	if end := fault.Of(c.status.Err()); v == nil && end != nil && end.Peer >= 0 && end.Peer != c.rank {
		err.Err, err.Peer = end.Err, end.Peer
		return end.Verdict
	}
	if v == nil || v.Rank == c.rank || slices.Contains(v.Blamed(), err.Peer) {
		return v
	}
	switch v.Kind {
	case fault.VerdictDead, fault.VerdictStopped, fault.VerdictMissing:
		err.Err, err.Peer = fmt.Errorf("%w; the ranks wait for rank %d", err.Err, v.Rank), v.Rank
	}
	return v
}

// marker is an engine whose work is not seen to start and end, but whose progress is.
type marker interface {
	RecordMark() (mark uint64, captured bool)
	RecordPassed() (mark uint64, all, ok bool)
}

// recordCalls records requests that are about to be enqueued. The caller holds c.mu.
func (c *Comm) recordCalls(seq uint64, reqs []collective.Request) {
	if c.record == nil {
		return
	}
	for i := range reqs {
		c.record.Enqueued(seq+uint64(i), &reqs[i])
	}
}

// enqueued records requests that the engine has enqueued, if err is nil. It returns err.
func (c *Comm) enqueued(seq uint64, reqs []collective.Request, err error) error {
	switch {
	case err != nil || c.record == nil:
	case c.marker != nil:
		mark, captured := c.marker.RecordMark()
		c.record.Marked(&reqs[0], seq, len(reqs), mark, captured)
	case c.stream0 != nil:
		c.record.Unseen(&reqs[0], seq, len(reqs))
	}
	return err
}

// submit passes requests to the engine, with stamps around them where it needs those. The path of most calls, in
// part.enqueue, has no frame of it.
func (c *Comm) submit(seq uint64, reqs []collective.Request) error {
	if !c.stamps || c.record == nil {
		return c.enqueued(seq, reqs, c.engine.Enqueue(seq, reqs))
	}
	return collective.Batches(seq, reqs, func(seq uint64, batch []collective.Request) error {
		return c.stamped(seq, batch, func() error { return c.engine.Enqueue(seq, batch) })
	})
}

// stamped enqueues requests that run together, on a host stream with stamps of their start and end around them.
func (c *Comm) stamped(seq uint64, batch []collective.Request, enqueue func() error) error {
	if c.record == nil {
		return enqueue()
	}
	s, ok := batch[0].Stream.(*host.Stream)
	if !ok {
		err := enqueue()
		if err == nil {
			c.record.Unseen(&batch[0], seq, len(batch))
		}
		return err
	}
	// The caller may reuse batch.
	first, n := collective.Request{Collective: batch[0].Collective, PartOf: batch[0].PartOf}, len(batch)
	stamp := func(f func()) error {
		return s.Launch("record", 1, func(*host.Block) error {
			f()
			return nil
		})
	}
	if err := stamp(func() { c.record.Started(&first, seq, n) }); err != nil {
		return err
	}
	if err := enqueue(); err != nil {
		return err
	}
	return stamp(func() { c.record.Ended(&first, seq, n, nil) })
}

// Records returns the last operations of this rank, its waits and the latest verdict, or nil if GOCCL_RECORD is 0.
func (c *Comm) Records() *record.Communicator { return c.record.Snapshot(0) }

// Verdict returns why the operation that waits now, or waited last, did so; nil: no operation has waited for long.
func (c *Comm) Verdict() *Verdict { return c.record.Verdict() }

// Verdict says why an operation waits and what to do: GOCCL_VERDICT_AFTER.
type Verdict = fault.Verdict

// WriteRecords writes the records of all communicators of this process in one of record.Formats.
func WriteRecords(w io.Writer, format string) error { return record.Write(w, record.Here(), format) }
