package record

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/host"
)

// marker is an engine whose work is not seen to start and end, although its progress is.
type marker interface {
	RecordMark() (mark uint64, captured bool)
	RecordPassed() (mark uint64, all, ok bool)
}

// Serve names the engine of the communicator, and says who stamps its work: the engine itself; on a GPU nobody, where
// an engine with marks is sampled; else Submit and Stamped.
func (x *Recorder) Serve(e collective.Engine, name string, itself, gpu bool) {
	if x == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.meta.Engine = name
	x.writeMeta(x.meta)
	x.stamps, x.unseenWork = !itself && !gpu, gpu
	if gpu {
		x.marker, _ = e.(marker)
	}
}

// Stamps reports whether the caller passes requests to Submit or Stamped, which stamp them.
func (x *Recorder) Stamps() bool { return x != nil && x.stamps }

// Passed returns Watch.Passed; nil if the engine is not sampled.
func (x *Recorder) Passed() func() (mark uint64, all, ok bool) {
	if x.marker == nil {
		return nil
	}
	return x.marker.RecordPassed
}

// Calls records requests that are about to be enqueued.
func (x *Recorder) Calls(seq uint64, reqs []collective.Request) {
	if x == nil {
		return
	}
	for i := range reqs {
		x.Enqueued(seq+uint64(i), &reqs[i])
	}
}

// Passes records requests that the engine has enqueued, if err is nil. It returns err.
func (x *Recorder) Passes(seq uint64, reqs []collective.Request, err error) error {
	switch {
	case err != nil || x == nil:
	case x.marker != nil:
		mark, captured := x.marker.RecordMark()
		x.Marked(&reqs[0], seq, len(reqs), mark, captured)
	case x.unseenWork:
		x.Unseen(&reqs[0], seq, len(reqs))
	}
	return err
}

// Submit passes requests to the engine, with stamps around them where it needs those.
func (x *Recorder) Submit(e collective.Engine, seq uint64, reqs []collective.Request) error {
	if !x.Stamps() {
		return x.Passes(seq, reqs, e.Enqueue(seq, reqs))
	}
	return collective.Batches(seq, reqs, func(seq uint64, batch []collective.Request) error {
		return x.Stamped(seq, batch, func() error { return e.Enqueue(seq, batch) })
	})
}

// Stamped enqueues requests that run together, on a host stream with stamps of their start and end around them.
func (x *Recorder) Stamped(seq uint64, batch []collective.Request, enqueue func() error) error {
	if x == nil {
		return enqueue()
	}
	s, ok := batch[0].Stream.(*host.Stream)
	if !ok {
		err := enqueue()
		if err == nil {
			x.Unseen(&batch[0], seq, len(batch))
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
	if err := stamp(func() { x.Started(&first, seq, n) }); err != nil {
		return err
	}
	if err := enqueue(); err != nil {
		return err
	}
	return stamp(func() { x.Ended(&first, seq, n, nil) })
}
