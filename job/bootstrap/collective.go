package bootstrap

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/goccl/goccl/internal/fault"
)

// leaveTimeout bounds the time that Close spends on notices to peers.
const leaveTimeout = 500 * time.Millisecond

// relayFrom is the number of ranks from which the collectives of a group go over relays (gather).
const relayFrom = 64

const (
	waitingTag = 1 << 63 // The tag of waiting notes, which carry the number of the collective.
	// waitingAfter is how long a rank waits before it tells all members that it does.
	waitingAfter = 5 * time.Second
)

// exchange is a collective. The sequence numbers of its ranks agree because all make the same calls.
//
// In a group that gathers over relays, a rank that has waited for long (waitingAfter, or a quarter of its time) tells
// all members that it is here. No rank ends while one is missing. So at the deadline all know exactly which ranks have
// not come.
func (g *group) exchange(ctx context.Context, op collectiveOp, data []byte) ([][]byte, error) {
	if len(data) > MaxMessage {
		return nil, g.fail(op.String(), -1, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), MaxMessage))
	}
	ctx, cancel := operationContext(ctx, g.e.timeout)
	defer cancel()
	g.collectiveMu.Lock()
	defer g.collectiveMu.Unlock()
	g.sequence++
	n := len(g.members)
	c := &collective{gather: newGather(g.rank, n, op, n < g.e.relayFrom, data), g: g, tag: g.sequence}
	steps := c.steps()
	for i, distances := range steps {
		culprit, err := c.run(ctx, distances)
		if err != nil {
			err = c.explain(ctx, culprit, err)
			c.warn(steps[i+1:], err)
			return nil, err
		}
	}
	if c.called {
		c.takeWaiting() // the notes of ranks that have come are not kept
	}
	return c.out, nil
}

// collective is a gather with its transport.
type collective struct {
	*gather
	g      *group
	tag    uint64
	called bool // This rank has told all members that it waits.
}

// run sends and receives the bundles of a step. With an error it returns the rank to blame, or -1. The ranks do not all
// send to the same rank first.
func (c *collective) run(ctx context.Context, distances []int) (culprit int, err error) {
	for i, d := range distances {
		for _, message := range c.bundle(d) {
			err := cmp.Or(contextError(ctx), c.send(ctx, c.at(d), message))
			switch {
			case err != nil && c.direct && ctx.Err() != nil && (i == 0 || !errors.Is(err, ErrTimeout)):
				return -1, errUnsent{err} // the peer did not hold this rank up
			case err != nil:
				return c.at(d), err
			}
		}
	}
	for len(distances) > 0 {
		keys := make([]key, len(distances))
		for i, d := range distances {
			keys[i] = key{c.g.members[c.at(-d)], frameCollective, c.g.space, c.tag}
		}
		var again []int // distances of which more messages follow
		var wrong error
		i, err := c.collect(ctx, keys, func(i int, message []byte) {
			more, blamed, err := c.receive(distances[i], message)
			if err != nil && wrong == nil {
				culprit, wrong = blamed, err
			}
			if more {
				again = append(again, distances[i])
			}
		})
		switch {
		case wrong != nil:
			return culprit, wrong
		case err != nil && i >= 0:
			return c.at(-distances[i]), err
		case err != nil:
			return -1, err
		}
		distances = again
	}
	return -1, nil
}

func (c *collective) send(ctx context.Context, to int, message []byte) error {
	return c.g.e.send(ctx, frameCollective, c.g.members[to], c.g.space, c.tag, message)
}

// collect waits for a message under each key. Over relays it tells the members after some time that this rank waits.
func (c *collective) collect(ctx context.Context, keys []key, got func(i int, data []byte)) (int, error) {
	if !c.called && !c.direct {
		patience := waitingAfter
		if end, ok := ctx.Deadline(); ok {
			patience = min(patience, time.Until(end)/4)
		}
		short, cancel := context.WithTimeout(ctx, patience)
		i, err := c.g.e.box.collect(short, keys, got) // of one key, so no message is taken when it times out
		cancel()
		if err == nil || i >= 0 || ctx.Err() != nil {
			return i, err
		}
		c.called = true
		c.g.e.spread(ctx, report{kind: reportWaiting, space: c.g.space, tag: c.tag})
	}
	return c.g.e.box.collect(ctx, keys, got)
}

// takeWaiting takes the waiting notes that have come, and returns which ranks are in this collective or a later one.
func (c *collective) takeWaiting() []bool {
	here := make([]bool, len(c.out))
	b := c.g.e.box
	b.mu.Lock()
	defer b.mu.Unlock()
	for r, m := range c.g.members {
		for {
			data, ok := b.pop(key{m, frameCollective, c.g.space, waitingTag})
			if !ok {
				break
			}
			here[r] = here[r] || len(data) == 8 && binary.LittleEndian.Uint64(data) >= c.tag
		}
	}
	return here
}

// explain makes the error of this rank.
func (c *collective) explain(ctx context.Context, culprit int, err error) error {
	switch {
	case culprit < 0 && errors.As(err, new(errUnsent)):
		return c.g.fail(c.op.String(), -1, err)
	case errors.As(err, new(*withdrawal)): // it names the rank to blame, which need not be the one awaited
	case errors.As(err, new(*toldError)):
		if culprit < 0 || !errors.Is(err, ErrPeerDead) {
			return c.g.fail(c.op.String(), culprit, err)
		}
	case err == errOtherCollective:
		return c.g.fail(c.op.String(), culprit, err)
	case culprit < 0 && ctx.Err() != nil:
		missing := c.missing(c.takeWaiting())
		return c.g.fail(c.op.String(), late(missing, err),
			fmt.Errorf("%w; still waiting for ranks %s", err, rankList(c.g.names(missing))))
	}
	return c.g.culprit(c.op, culprit, err)
}

// warn sends the failure in place of the bundles of the remaining steps.
func (c *collective) warn(steps [][]int, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	message := append([]byte{byte(c.op), flagFails}, c.g.failure(err)...)
	for _, distances := range steps {
		for _, d := range distances {
			_ = c.send(ctx, c.at(d), message)
		}
	}
}

// failure encodes an error of this rank, whose Peer is to blame.
func (g *group) failure(err error) []byte {
	culprit := -1
	if e := fault.PartOf(err, Part); e != nil {
		for r := range g.members {
			if g.name(r) == e.Peer {
				culprit = r
			}
		}
		err = e.Err
	}
	return EncodeFailure(culprit, err)
}

var errOtherCollective = fmt.Errorf("%w: the peer is in another collective; all ranks must make the same calls in "+
	"the same order", ErrProtocol)

// causeDelay is how long a collective that failed because a peer left waits for a death that explains it.
const causeDelay = 100 * time.Millisecond

// culprit makes the error of a collective that failed because of rank. A peer that leaves in the middle has often
// detected another rank's death just before this rank does. Then the dead rank is to blame, not the peer that left.
func (g *group) culprit(op collectiveOp, rank int, err error) error {
	for end := time.Now().Add(causeDelay); err == errPeerClosed; time.Sleep(causeDelay / 50) {
		if r, cause := g.firstDeath(); cause != nil {
			rank, err = r, cause
		}
		if time.Now().After(end) || g.isClosed() {
			break
		}
	}
	if w, ok := errors.AsType[*withdrawal](err); ok {
		rank = g.blames(w)
	}
	if errors.Is(err, ErrPeerDead) {
		if r, cause := g.firstDeath(); cause != nil {
			rank, err = r, cause
		}
	}
	return g.fail(op.String(), rank, err)
}

// firstDeath returns the member whose death was detected first by this rank.
func (g *group) firstDeath() (rank int, cause error) {
	g.e.mu.Lock()
	defer g.e.mu.Unlock()
	for _, d := range g.e.m.deaths {
		if r, ok := g.index[d.peer]; ok {
			return r, d.cause
		}
	}
	return -1, nil
}

type collectiveOp byte

const (
	opAllGather collectiveOp = iota + 1
	opBarrier
	opSub
)

func (o collectiveOp) String() string { return [...]string{"", "AllGather", "Barrier", "Sub"}[o] }

func (g *group) AllGather(ctx context.Context, data []byte) ([][]byte, error) {
	return g.exchange(ctx, opAllGather, data)
}

func (g *group) Barrier(ctx context.Context) error {
	_, err := g.exchange(ctx, opBarrier, nil)
	return err
}

// names converts ranks to the numbers that errors use.
func (g *group) names(ranks []int) []int {
	out := make([]int, len(ranks))
	for i, r := range ranks {
		out[i] = g.name(r)
	}
	return out
}

// late returns the rank that has not come in time, or -1: several are missing, or the caller has ended the wait.
func late(missing []int, err error) int {
	if len(missing) == 1 && errors.Is(err, ErrTimeout) {
		return missing[0]
	}
	return -1
}

func missingRanks(n int, have func(r int) bool) []int {
	var missing []int
	for r := range n {
		if !have(r) {
			missing = append(missing, r)
		}
	}
	return missing
}

// rankList formats ranks; it truncates a long list.
func rankList(ranks []int) string {
	const most = 16
	if len(ranks) <= most {
		return fmt.Sprint(ranks)
	}
	return fmt.Sprintf("%v and %d more", ranks[:most], len(ranks)-most)
}
