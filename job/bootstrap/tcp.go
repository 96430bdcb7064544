package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
)

// JoinID joins the job of id as one of its ranks. It returns when every rank has joined and can reach every other, or
// when ctx ends.
func JoinID(ctx context.Context, id UniqueID, rank, worldSize int, opts ...Option) (Bootstrap, error) {
	b, err := join(ctx, rank, worldSize, opts, func(c *config) (meeting, error) {
		f, err := id.decode()
		if err != nil {
			return meeting{}, err
		}
		m := meeting{secret: f.secret[:], iface: c.iface, targets: f.targets(), maker: f.maker}
		if f.flags&flagRankZero != 0 {
			m.address = &rootAddress{host: f.addr.Addr().String(), port: f.addr.Port()}
			if a, err := parseAddress(c.commID); err == nil && bytes.Equal(secretFor(a, c.secret), m.secret) {
				m.address, m.targets = &a, a.targets() // each host resolves the name, as in JoinAddress
			}
			m.weak = len(c.secret) == 0
			m.attempt, err = currentAttempt(processEnvironment)
			return m, err
		}
		m.gone = goneFrom(f.addr.Addr())
		if process.used.has(&f, rank) {
			return m, fmt.Errorf("%w: this process has joined a job by this UniqueID before, as rank %d: make an id for each "+
				"communicator", ErrInvalid, rank)
		}
		if r := liveRoot(id); r != nil {
			r.step(func(a *assembly) { a.pin(rank, worldSize) })
		}
		return m, err
	})
	if f, decodeErr := id.decode(); err == nil && decodeErr == nil {
		process.used.add(&f, rank)
	}
	if r := liveRoot(id); err != nil && r != nil && !r.joined() {
		r.fail(rank, verdictGaveUp, fmt.Sprintf("rank %d, in the process that made the id, gave up: %v", rank, err))
	}
	return b, err
}

// JoinAddress is JoinID for a job that meets at address: "ip:port", "host:port", "interface:ip:port", or "unix:@name"
// on one host. Rank 0 listens there. All ranks give the same address (the interface may differ) and the same
// GOCCL_SECRET.
func JoinAddress(ctx context.Context, address string, rank, worldSize int, opts ...Option) (Bootstrap, error) {
	return join(ctx, rank, worldSize, opts, func(c *config) (meeting, error) {
		a, err := parseAddress(address)
		if err != nil {
			return meeting{}, err
		}
		m := meeting{secret: secretFor(a, c.secret), iface: c.iface, targets: a.targets(), address: &a}
		if a.iface != "" {
			m.iface = "=" + a.iface
		}
		m.weak = len(c.secret) == 0 && a.unix == ""
		m.attempt, err = currentAttempt(processEnvironment)
		return m, err
	})
}

func join(ctx context.Context, rank, worldSize int, opts []Option, where func(*config) (meeting, error)) (Bootstrap,
	error) {
	const op = "Init"
	c, err := newConfig(opts)
	switch {
	case err != nil:
	case worldSize < 1 || worldSize > MaxWorldSize:
		err = fmt.Errorf("%w: %d, want 1 to %d", ErrWorldSize, worldSize, MaxWorldSize)
	case rank < 0 || rank >= worldSize:
		err = fmt.Errorf("%w: %d of %d ranks", ErrRankRange, rank, worldSize)
	}
	if err != nil {
		return nil, fail(op, rank, -1, err)
	}
	j := joiner{rank, worldSize}
	g, r, err := j.join(ctx, c, where)
	if err != nil {
		peer := -1
		if b, ok := errors.AsType[*blame](err); ok {
			peer = b.peer
		}
		return nil, fail(op, rank, peer, err)
	}
	g.root = r
	return g, nil
}
