package bootstrap

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goccl/goccl/internal/tags"
)

// group is the Bootstrap of some ranks of an endpoint. Its messages carry its space, so groups of one endpoint do not
// mix.
type group struct {
	e       *endpoint
	space   uint64
	rank    int
	members []int       // group rank → endpoint rank
	index   map[int]int // endpoint rank → group rank
	hosts   []int
	root    *root // in rank 0 of a job that has met at an address

	obituaries obituaries
	withdrawn  obituaries // The members that have given up
	farewell   sync.Once  // the notice of leave was sent

	collectiveMu sync.Mutex
	sequence     uint64

	above      *group // the group that Sub divided; nil: the whole job
	aboveRanks []int  // group rank → rank of above
	nameAbove  atomic.Bool

	subMu sync.Mutex
	subs  map[string]uint64 // number of calls of each Sub, so that a repeated Sub gets a new space
}

// newGroup registers a group of the endpoint. members lists endpoint ranks and includes the endpoint's own.
func newGroup(e *endpoint, space uint64, members []int) (*group, error) {
	g := &group{
		e: e, space: space, rank: -1, members: members, index: make(map[int]int, len(members)),
		obituaries: obituaries{size: len(members)}, withdrawn: obituaries{size: len(members)}, subs: map[string]uint64{},
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

// report records the death of peer. The caller holds the endpoint's lock.
func (g *group) report(peer int, cause error) {
	r, ok := g.index[peer]
	if ok {
		g.obituaries.report(PeerFailure{Rank: r, Err: g.fail("watch", r, cause)})
	}
}

func (g *group) peer(op string, peer int) (int, error) {
	if peer < 0 || peer >= len(g.members) {
		return 0, g.fail(op, -1, fmt.Errorf("%w: peer %d of %d ranks", ErrInvalid, peer, len(g.members)))
	}
	return g.members[peer], nil
}

// NameAsAbove makes the errors of b, the result of a Sub, name ranks as the errors of its parent do (NameOf), or again
// by their numbers in b. A set-up on a Sub uses it to report ranks in the numbering of its caller. The ranks in
// PeerFailure keep b's numbering. NameAsAbove ignores a Bootstrap of another package.
func NameAsAbove(b Bootstrap, above bool) {
	if g, ok := b.(*group); ok && g.above != nil {
		g.nameAbove.Store(above)
	}
}

// NameOf returns the number that errors use for rank r of b. Errors that blame a member of b need it.
func NameOf(b Bootstrap, r int) int {
	if g := groupOf(b); g != nil {
		return g.name(r)
	}
	return r
}

// name returns the number that errors use for rank r.
func (g *group) name(r int) int {
	if g.nameAbove.Load() && r >= 0 && r < len(g.aboveRanks) {
		return g.above.name(g.aboveRanks[r])
	}
	return r
}

func (g *group) fail(op string, peer int, err error) error {
	return fail(op, g.name(g.rank), g.name(peer), err)
}

func (g *group) Send(ctx context.Context, peer, tag int, data []byte) error {
	m, err := g.peer("Send", peer)
	if err != nil {
		return err
	}
	if len(data) > MaxMessage {
		return g.fail("Send", peer, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), MaxMessage))
	}
	ctx, cancel := operationContext(ctx, g.e.timeout)
	defer cancel()
	if err := g.e.send(ctx, frameData, m, g.space, uint64(tag), data); err != nil {
		return g.fail("Send", peer, err)
	}
	return nil
}

func (g *group) Recv(ctx context.Context, peer, tag int) ([]byte, error) {
	m, err := g.peer("Recv", peer)
	if err != nil {
		return nil, err
	}
	ctx, cancel := operationContext(ctx, g.e.timeout)
	defer cancel()
	var out []byte
	keys := [1]key{{m, frameData, g.space, uint64(tag)}}
	if _, err := g.e.box.collect(ctx, keys[:], func(_ int, data []byte) { out = data }); err != nil {
		return nil, g.fail("Recv", peer, err)
	}
	return out, nil
}

func (g *group) Close() error {
	if !g.obituaries.close() {
		return nil
	}
	g.withdrawn.close()
	g.giveUp(nil) // first, because closing the space makes it unreachable
	g.e.drop(g)
	if g.root != nil {
		<-g.root.done
	}
	return nil
}

func (g *group) Sub(ctx context.Context, ranks []int, tagSpace int) (Bootstrap, error) {
	members := make([]int, len(ranks))
	for i, r := range ranks {
		m, err := g.peer("Sub", r)
		if err != nil {
			return nil, err
		}
		if slices.Contains(ranks[:i], r) {
			return nil, fail("Sub", g.rank, -1, fmt.Errorf("%w: rank %d is listed twice", ErrInvalid, r))
		}
		members[i] = m
	}
	if !slices.Contains(ranks, g.rank) {
		return nil, fail("Sub", g.rank, -1, fmt.Errorf("%w: rank %d is not in %v; only the ranks listed call Sub", ErrInvalid,
			g.rank, ranks))
	}
	if g.isClosed() {
		return nil, fail("Sub", g.rank, -1, ErrClosed)
	}
	sub, err := newGroup(g.e, g.subSpace(members, tagSpace), members)
	if err != nil {
		return nil, fail("Sub", g.rank, -1, err)
	}
	sub.above, sub.aboveRanks = g, slices.Clone(ranks)
	NameAsAbove(sub, true)
	if _, err := sub.exchange(ctx, opSub, nil); err != nil {
		sub.giveUp(sub.failure(err))
		_ = sub.Close()
		return nil, err
	}
	NameAsAbove(sub, false)
	return sub, nil
}

// OnceSpace returns the tagSpace for one call of Sub. agreed is data that the listed ranks have agreed on and that no
// other call uses, for example random bytes of all of them. So different calls never mix, however often each rank has
// called Sub before.
func OnceSpace(agreed []byte) int {
	sum := sha256.Sum256(agreed)
	return int(binary.LittleEndian.Uint64(sum[:])>>2 | tags.SpaceUsedOnce)
}

// subSpace derives the space without communication: the members agree on the parent, the list, the tagSpace and the
// number of earlier calls with these. A failed attempt counts too, on every member, because each counts its own calls.
func (g *group) subSpace(members []int, tagSpace int) uint64 {
	buf := binary.LittleEndian.AppendUint64(nil, g.space)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(tagSpace))
	for _, m := range members {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(m))
	}
	if tagSpace < tags.SpaceUsedOnce {
		g.subMu.Lock()
		nth := g.subs[string(buf)]
		g.subs[string(buf)]++
		g.subMu.Unlock()
		buf = binary.LittleEndian.AppendUint64(buf, nth)
	}
	sum := sha256.Sum256(buf)
	// Space 0 belongs to the whole job.
	return binary.LittleEndian.Uint64(sum[:]) | 1
}

func (g *group) isClosed() bool {
	g.obituaries.mu.Lock()
	defer g.obituaries.mu.Unlock()
	return g.obituaries.ended
}

// obituaries holds the known deaths of a group and the subscribers.
type obituaries struct {
	mu    sync.Mutex
	size  int           // of the group
	known []PeerFailure // in the order of detection
	subs  []chan PeerFailure
	ended bool
}

// subscribe makes a channel with room for every member once, so that sending never blocks, and sends the known deaths.
func (o *obituaries) subscribe() chan PeerFailure {
	ch := make(chan PeerFailure, o.size)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.known {
		ch <- f
	}
	if o.ended {
		close(ch)
		return ch
	}
	o.subs = append(o.subs, ch)
	return ch
}

// report sends a death to every subscriber. Each member is reported at most once.
func (o *obituaries) report(f PeerFailure) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return
	}
	o.known = append(o.known, f)
	for _, ch := range o.subs {
		ch <- f
	}
}

// cancel closes and removes one subscription. It ignores a channel that is not a subscription.
func (o *obituaries) cancel(ch <-chan PeerFailure) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.IndexFunc(o.subs, func(c chan PeerFailure) bool { return c == ch }); i >= 0 {
		close(o.subs[i])
		o.subs = slices.Delete(o.subs, i, i+1)
	}
}

// close ends all subscriptions. It returns false if that was done before.
func (o *obituaries) close() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return false
	}
	o.ended = true
	for _, ch := range o.subs {
		close(ch)
	}
	o.subs = nil
	return true
}

// StopFailures ends a subscription that b.Failures returned: it closes ch and b forgets it. A caller that subscribes
// repeatedly must call it, or the subscriptions accumulate until b is closed. It ignores a Bootstrap of another package
// without this feature.
func StopFailures(b Bootstrap, ch <-chan PeerFailure) {
	if g := groupOf(b); g != nil {
		g.obituaries.cancel(ch)
	}
}
