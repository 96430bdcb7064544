package moe

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// The operations. Each enqueues on its stream and returns; seq is the operation's number, the same on all ranks. Count
// is local, the others are collective.

// Notify fills a handle.
func (b *Buffer) Notify(seq uint64, a *NotifyArgs) error {
	q := request(collective.MoENotify, a.Tokens*a.entries(), datatype.Int64, a.Stream)
	return b.run(seq, q, func() error { return b.checkNotify(a) }, func() error { return b.engine.notify(seq, a) })
}

// Dispatch sends the tokens to the ranks of their experts.
func (b *Buffer) Dispatch(seq uint64, a *DispatchArgs) error {
	q := request(collective.MoEDispatch, a.Tokens*a.Hidden, a.Type, a.Stream)
	return b.run(seq, q, func() error { return b.checkDispatch(a) }, func() error { return b.engine.dispatch(seq, a) })
}

// Combine returns the results to the tokens' ranks and adds them.
func (b *Buffer) Combine(seq uint64, a *CombineArgs) error {
	q := request(collective.MoECombine, a.Tokens*a.Hidden, datatype.Bfloat16, a.Stream)
	return b.run(seq, q, func() error { return b.checkCombine(a) }, func() error { return b.engine.combine(seq, a) })
}

// request is what the flight recorder knows of an operation.
func request(c collective.Collective, count int, t datatype.Type, s device.Stream) *collective.Request {
	return &collective.Request{Collective: c, Count: int64(count), Type: t, Stream: s}
}

// run checks the arguments before anything is enqueued, so that the caller may call again.
func (b *Buffer) run(seq uint64, q *collective.Request, check, enqueue func() error) error {
	if err := b.Err(); err != nil {
		return err
	}
	if err := check(); err != nil {
		return b.error(q.Collective.String(), seq, -1, err)
	}
	if b.cfg.Record != nil {
		return b.cfg.Record(seq, q, enqueue)
	}
	return enqueue()
}

// Count counts this rank's tokens by rank and by expert.
func (b *Buffer) Count(a *CountArgs) error {
	if err := b.Err(); err != nil {
		return err
	}
	if err := b.checkCount(a); err != nil {
		return b.error("moe_count", 0, -1, err)
	}
	return b.engine.count(a)
}

func (b *Buffer) checkCount(a *CountArgs) error {
	if err := a.validate(b.size); err != nil {
		return err
	}
	if a.Tokens < 0 || a.TopK == 0 {
		return bad("%d tokens with %d experts each", a.Tokens, a.TopK)
	}
	return check(buffer{"TopKIndex", a.TopKIndex, 8, a.Tokens > 0}, buffer{"Ranks", a.Ranks, 4, false},
		buffer{"ExpertCounts", a.ExpertCounts, 4, false})
}
