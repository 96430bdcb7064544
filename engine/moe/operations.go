package moe

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
)

// operation is one call of a collective operation.
type operation struct {
	b       *Buffer
	request collective.Request
	stream  *device.Stream // of the arguments
	check   func() error
	enqueue func(seq uint64) error
}

// Request implements collective.Operation. It checks the arguments.
func (o *operation) Request() (collective.Request, error) {
	err := o.b.Err()
	if err == nil {
		err = o.check()
	}
	return o.request, err
}

// Enqueue implements collective.Operation.
func (o *operation) Enqueue(seq uint64, s device.Stream) error {
	*o.stream = s
	return o.enqueue(seq)
}

func (b *Buffer) operation(c collective.Collective, count int, t datatype.Type, s *device.Stream, check func() error,
	enqueue func(seq uint64) error) collective.Operation {
	return &operation{b, collective.Request{Collective: c, Count: int64(count), Type: t, Stream: *s}, s, check, enqueue}
}

// Notify fills a handle.
func (b *Buffer) Notify(a NotifyArgs) collective.Operation {
	return b.operation(collective.MoENotify, a.Tokens*a.entries(), datatype.Int64, &a.Stream,
		func() error { return b.checkNotify(&a) }, func(seq uint64) error { return b.engine.notify(seq, &a) })
}

// Dispatch sends the tokens to the ranks of their experts.
func (b *Buffer) Dispatch(a DispatchArgs) collective.Operation {
	return b.operation(collective.MoEDispatch, a.Tokens*a.Hidden, a.Type, &a.Stream,
		func() error { return b.checkDispatch(&a) }, func(seq uint64) error { return b.engine.dispatch(seq, &a) })
}

// Combine returns the results to the tokens' ranks and adds them.
func (b *Buffer) Combine(a CombineArgs) collective.Operation {
	return b.operation(collective.MoECombine, a.Tokens*a.Hidden, datatype.Bfloat16, &a.Stream,
		func() error { return b.checkCombine(&a) }, func(seq uint64) error { return b.engine.combine(seq, &a) })
}

// Count counts this rank's tokens by rank and by expert. It is local.
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
