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
func NewLocal(n int, opts ...Option) *Local { return NewLocalHosts(make([]int, max(0, n)), opts...) }

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
		l.endpoints[r] = newEndpoint(r, n, c, true)
		l.endpoints[r].hosts = hosts
	}
	for r, e := range l.endpoints {
		e.t = &localTransport{l: l, rank: r}
		g, err := newGroup(e, 0, Everyone(n))
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

// Kill makes rank die without a goodbye: its own operations end with ErrClosed, its peers' operations with ErrPeerDead.
func (l *Local) Kill(rank int) {
	l.endpoints[rank].abandon(fmt.Errorf("%w: killed", ErrClosed))
	for p, e := range l.endpoints {
		if p != rank {
			e.lost(rank, errKilled)
		}
	}
}

var errKilled = errors.New("killed")

// localTransport is the transport of a rank whose peers are in this process: all are neighbours.
type localTransport struct {
	l       *Local
	rank    int
	reports []addressed // Not delivered yet; guarded by the endpoint's mu.
}

// addressed is a report for one peer.
type addressed struct {
	to int
	report
}

// send puts the frame straight into the peer's inbox. It never blocks.
func (t *localTransport) send(ctx context.Context, peer int, kind frameKind, space, tag uint64, data []byte) error {
	if ctx.Err() != nil {
		return contextError(ctx)
	}
	t.l.endpoints[peer].box.put(key{t.rank, kind, space, tag}, append([]byte{}, data...))
	return nil
}

// report queues a report for flush, which does not hold the lock. Kill itself tells all ranks of a death.
func (t *localTransport) report(r report, _ int) {
	for p := range t.l.endpoints {
		if p != t.rank && r.kind != reportDeath && t.l.endpoints[t.rank].m.wants(p, r) {
			t.reports = append(t.reports, addressed{p, r})
		}
	}
}

func (t *localTransport) flush(context.Context) {
	e := t.l.endpoints[t.rank]
	e.mu.Lock()
	list := t.reports
	t.reports = nil
	e.mu.Unlock()
	for _, a := range list {
		t.l.endpoints[a.to].step(func(m *membership, now int64) { m.receive(now, t.rank, true, a.report) })
	}
}

func (t *localTransport) stop() {
	e := t.l.endpoints[t.rank]
	e.step(func(m *membership, _ int64) { m.originate(report{kind: reportGoodbye}) })
	t.flush(context.Background())
}

func (t *localTransport) pin([]int, int) {}
func (t *localTransport) cut(int, error) {}
func (t *localTransport) forget(int)     {}
