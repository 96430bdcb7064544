package moe

// The operations. Each enqueues on its stream and returns; seq is the operation's number, the same on all ranks. Count
// is local, the others are collective.

// Notify fills a handle.
func (b *Buffer) Notify(seq uint64, a *NotifyArgs) error {
	return b.run("moe_notify", seq, func() error { return b.checkNotify(a) },
		func() error { return b.engine.notify(seq, a) })
}

// Dispatch sends the tokens to the ranks of their experts.
func (b *Buffer) Dispatch(seq uint64, a *DispatchArgs) error {
	return b.run("moe_dispatch", seq, func() error { return b.checkDispatch(a) },
		func() error { return b.engine.dispatch(seq, a) })
}

// Combine returns the results to the tokens' ranks and adds them.
func (b *Buffer) Combine(seq uint64, a *CombineArgs) error {
	return b.run("moe_combine", seq, func() error { return b.checkCombine(a) },
		func() error { return b.engine.combine(seq, a) })
}

// Count counts this rank's tokens by rank and by expert.
func (b *Buffer) Count(a *CountArgs) error {
	return b.run("moe_count", 0, func() error {
		if err := a.validate(b.size); err != nil {
			return err
		}
		if a.Tokens < 0 || a.TopK == 0 {
			return bad("%d tokens with %d experts each", a.Tokens, a.TopK)
		}
		return check(buffer{"TopKIndex", a.TopKIndex, 8, a.Tokens > 0}, buffer{"Ranks", a.Ranks, 4, false},
			buffer{"ExpertCounts", a.ExpertCounts, 4, false})
	}, func() error { return b.engine.count(a) })
}

// run checks the arguments before anything is enqueued, so that the caller may call again.
func (b *Buffer) run(op string, seq uint64, check, enqueue func() error) error {
	if err := b.Err(); err != nil {
		return err
	}
	if err := check(); err != nil {
		return b.error(op, seq, -1, err)
	}
	return enqueue()
}
