package bootstrap

import (
	"context"
	"errors"
	"fmt"
)

// NewLocalGroup makes the n ranks of a job inside this process. It panics if n is not positive. A bad value in the
// environment is the error of every operation that involves other ranks.
func NewLocalGroup(n int) []Bootstrap { return NewLocal(n).Ranks }

// Local is a job of goroutines: Ranks[r] belongs to rank r.
type Local struct {
	Ranks     []Bootstrap
	endpoints []*endpoint
}

// NewLocal is NewLocalGroup with a handle for failure injection. Of the options, WithTimeout and WithLogger apply.
func NewLocal(n int, opts ...Option) *Local { return NewLocalHosts(make([]int, n), opts...) }

// NewLocalHosts makes one rank per element of hosts, each claiming to be on the host of that number, for tests of jobs
// on several hosts.
func NewLocalHosts(hosts []int, opts ...Option) *Local {
	n := len(hosts)
	if n == 0 || n > MaxWorldSize {
		panic(fmt.Sprintf("bootstrap: %d ranks: want 1 to %d", n, MaxWorldSize))
	}
	c, bad := newConfig(opts)
	l := &Local{endpoints: make([]*endpoint, n)}
	for r := range n {
		l.endpoints[r] = newEndpoint(r, n, c)
		l.endpoints[r].hosts = hosts
	}
	for r, e := range l.endpoints {
		for p, to := range l.endpoints {
			if p != r {
				e.links[p] = localLink{from: r, to: to}
			}
		}
		e.stop = func() {
			for p, to := range l.endpoints {
				if p != r {
					to.departed(r)
				}
			}
		}
		g, err := newGroup(e, 0, everyone(n))
		if err != nil {
			panic("bootstrap: " + err.Error()) // cannot fail: a fresh endpoint has no groups
		}
		l.Ranks = append(l.Ranks, g)
	}
	if bad != nil {
		for _, e := range l.endpoints {
			e.abandon(bad)
		}
	}
	return l
}

// Kill makes rank die without a goodbye: its own operations end with ErrClosed, those of its peers with ErrPeerDead.
func (l *Local) Kill(rank int) {
	l.endpoints[rank].abandon(fmt.Errorf("%w: killed", ErrClosed))
	for p, e := range l.endpoints {
		if p != rank {
			e.lost(rank, errKilled)
		}
	}
}

var errKilled = errors.New("killed")

// localLink puts frames straight into the peer's inbox. It never blocks.
type localLink struct {
	from int
	to   *endpoint
}

func (l localLink) send(ctx context.Context, kind frameKind, space, tag uint64, data []byte) error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	l.to.deliver(l.from, kind, space, tag, append([]byte{}, data...))
	return nil
}
