package fused

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
)

// apart runs the communicator's collectives, and the other steps after them.
func (w *Workspace) apart(seq uint64, r *Request) error {
	if r.divides() {
		return w.apartDivided(seq, r)
	}
	pieces := w.pieces(r)
	if r.Sum != 0 && r.Sum != r.Residual {
		pieces = r.Tokens
	}
	for from := int64(0); from < r.Tokens; from += pieces {
		to := min(r.Tokens, from+pieces)
		sums := w.scratch.Ptr().Add(-from * r.RowBytes())
		if r.Sum != 0 && r.Sum != r.Residual {
			sums = r.Sum
		}
		if err := w.collective(seq, r, collective.AllReduce, 0, r.Input, sums, from, to); err != nil {
			return err
		}
		if err := w.finish(seq, r, whole, sums, from, to); err != nil {
			return err
		}
	}
	return nil
}

// apartDivided reduces the rows of each owner to it. The owner normalises them, and broadcasts the norms.
func (w *Workspace) apartDivided(seq uint64, r *Request) error {
	size := w.comm.Bootstrap.WorldSize()
	for owner := range size {
		first, end := r.Slice(owner, size)
		for from := first; from < end; from += w.pieces(r) {
			to := min(end, from+w.pieces(r))
			rows := w.scratch.Ptr().Add(-from * r.RowBytes())
			if err := w.collective(seq, r, collective.Reduce, owner, r.Input, rows, from, to); err != nil {
				return err
			}
			if owner == w.comm.Bootstrap.Rank() {
				if err := w.finish(seq, r, normalising, rows, from, to); err != nil {
					return err
				}
			}
			if !r.normalises() {
				continue
			}
			if err := w.collective(seq, r, collective.Broadcast, owner, rows, rows, from, to); err != nil {
				return err
			}
			if err := w.finish(seq, r, writing, rows, from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// pieces is the number of rows that fit the scratch memory.
func (w *Workspace) pieces(r *Request) int64 { return w.cfg.ScratchBytes / r.RowBytes() }

// collective enqueues a collective of the communicator on rows [from, to).
func (w *Workspace) collective(seq uint64, r *Request, c collective.Collective, root int, send, recv device.Ptr,
	from, to int64) error {
	at := device.Ptr(from * r.RowBytes())
	return w.comm.Enqueue(seq, []collective.Request{{Collective: c, PartOf: collective.AllReduceFusion, Root: root,
		Send: send + at, Recv: recv + at, Count: (to - from) * r.Hidden, Type: r.Type, Op: datatype.Sum, Stream: r.Stream}})
}

// finish enqueues a stage of rows [from, to). Follow protects the scratch memory from the next request on another
// stream.
func (w *Workspace) finish(seq uint64, r *Request, do stage, sums device.Ptr, from, to int64) error {
	if err := w.comm.Follow(r.Stream); err != nil {
		return err
	}
	if w.gpu != nil {
		return w.gpu.finish(seq, r, do, sums, from, to)
	}
	copied := *r
	return r.Stream.(*host.Stream).Launch(collective.AllReduceFusion.String(), 1, func(*host.Block) error {
		copied.epilogue(do, sums, from, to)
		return nil
	})
}
