package bootstrap

import (
	"context"
	"fmt"
	"sync"
)

// group is the Bootstrap of some ranks of an endpoint. Its messages carry its space, so groups of one endpoint do not meet.
type group struct {
	e       *endpoint
	space   uint64
	rank    int
	members []int       // our rank → the endpoint's
	index   map[int]int // the endpoint's rank → ours
	hosts   []int

	obituaries obituaries
	farewell   sync.Once // said to the members

	collectiveMu sync.Mutex
	sequence     uint64

	subMu sync.Mutex
	subs  map[string]uint64 // how often each Sub was made, so that a second one has its own space
}

// newGroup registers a group of the endpoint. members lists endpoint ranks and includes the endpoint's own.
func newGroup(e *endpoint, space uint64, members []int) (*group, error) {
	g := &group{
		e: e, space: space, rank: -1, members: members, index: make(map[int]int, len(members)),
		obituaries: obituaries{size: len(members)}, subs: map[string]uint64{},
	}
	number := map[int]int{}
	for r, m := range members {
		g.index[m] = r
		if m == e.rank {
			g.rank = r
		}
		h := e.hosts[m]
		if _, ok := number[h]; !ok {
			number[h] = len(number)
		}
		g.hosts = append(g.hosts, number[h])
	}
	return g, e.add(g)
}

func (g *group) Rank() int                    { return g.rank }
func (g *group) WorldSize() int               { return len(g.members) }
func (g *group) Hosts() []int                 { return g.hosts }
func (g *group) Failures() <-chan PeerFailure { return g.obituaries.subscribe() }

func (g *group) stopFailures(ch <-chan PeerFailure) { g.obituaries.cancel(ch) }

// report is called under the endpoint's lock.
func (g *group) report(peer int, cause error) {
	r, ok := g.index[peer]
	if ok {
		g.obituaries.report(PeerFailure{Rank: r, Err: fail("watch", g.rank, r, cause)})
	}
}

func (g *group) peer(op string, peer int) (int, error) {
	if peer < 0 || peer >= len(g.members) {
		return 0, fail(op, g.rank, -1, fmt.Errorf("%w: peer %d of %d ranks", ErrInvalid, peer, len(g.members)))
	}
	return g.members[peer], nil
}

func (g *group) Send(ctx context.Context, peer, tag int, data []byte) error {
	m, err := g.peer("Send", peer)
	if err != nil {
		return err
	}
	if len(data) > MaxMessage {
		return fail("Send", g.rank, peer, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), MaxMessage))
	}
	ctx, cancel := stepContext(ctx, g.e.timeout)
	defer cancel()
	if err := g.e.send(ctx, frameData, m, g.space, uint64(tag), data); err != nil {
		return fail("Send", g.rank, peer, err)
	}
	return nil
}

func (g *group) Recv(ctx context.Context, peer, tag int) ([]byte, error) {
	m, err := g.peer("Recv", peer)
	if err != nil {
		return nil, err
	}
	ctx, cancel := stepContext(ctx, g.e.timeout)
	defer cancel()
	var out []byte
	keys := [1]key{{m, frameData, g.space, uint64(tag)}}
	if _, err := g.e.box.collect(ctx, keys[:], func(_ int, data []byte) { out = data }); err != nil {
		return nil, fail("Recv", g.rank, peer, err)
	}
	return out, nil
}

func (g *group) Close() error {
	if !g.obituaries.close() {
		return nil
	}
	g.leave() // first: closing the space here makes it unreachable
	g.e.drop(g)
	return nil
}
