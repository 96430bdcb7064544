package agreement

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
)

// The reasons for an agreement without an outcome, for errors.Is.
var (
	ErrExcluded  = errors.New("this rank was excluded")
	ErrWithdrawn = errors.New("a rank has given up")
	ErrLeft      = errors.New("a rank has closed the communicator")
)

// Part is the part of the errors of an agreement without an outcome.
const Part = "agreement"

// Overtaken means that a peer is in a later call: restart with at least this number.
type Overtaken struct{ Number uint64 }

func (o *Overtaken) Error() string { return fmt.Sprintf("a peer is in call %d", o.Number) }

// Member is one rank's participant in the agreements of a communicator.
type Member struct {
	boot       bootstrap.Bootstrap
	tag        int
	rank, size int

	mu        sync.Mutex
	queues    [][]*message  // by peer, oldest first
	gone      []error       // by peer: why no more messages arrive
	changed   chan struct{} // closed and replaced when a message has arrived or a peer is gone
	receiving bool
	closed    bool
	without   int        // a peer that has decided without this rank; -1: none
	gaveUp    []*message // by peer: the latest joint call that it has given up

	number uint64 // of this rank's latest call
	joint  uint64 // this rank's latest completed joint call
	tasks  sync.WaitGroup
}

// New makes the member of rank b.Rank(). All its messages use the tag.
func New(b bootstrap.Bootstrap, tag int) *Member {
	n := b.WorldSize()
	return &Member{boot: b, tag: tag, rank: b.Rank(), size: n, queues: make([][]*message, n), gone: make([]error, n),
		changed: make(chan struct{}), without: -1, gaveUp: make([]*message, n)}
}

// Listen takes the messages that peers have sent, and starts receiving more, until Close.
func (m *Member) Listen() {
	m.mu.Lock()
	begun := m.receiving || m.closed
	m.receiving = true
	m.mu.Unlock()
	if begun {
		return
	}
	ended, end := context.WithCancel(context.Background())
	end()
	var there sync.WaitGroup
	bootstrap.Serve(ended, &there, m.boot, m.tag, m.receive, nil)
	there.Wait()
	bootstrap.Serve(context.Background(), &m.tasks, m.boot, m.tag, m.receive, m.lose)
}

// receive takes a message of a peer.
func (m *Member) receive(peer int, b []byte) error {
	msg, err := decode(b, m.size)
	if err != nil {
		m.lose(peer, err)
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if msg.kind == kindGaveUp {
		m.gaveUp[peer] = msg
	} else {
		m.queues[peer] = append(m.queues[peer], msg)
	}
	m.change()
	return nil
}

// lose records why no more messages of a peer arrive.
func (m *Member) lose(peer int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone[peer] = err
	m.change()
}

// change says that a message has arrived or a peer is gone. The caller holds mu.
func (m *Member) change() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// Close waits until no goroutine of the member runs. The Bootstrap must have been closed before.
func (m *Member) Close() {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.tasks.Wait()
}

// Completed records that this rank has completed the joint call of that number. Joint calls are the other calls that
// all ranks make together (Split, Grow); each rank numbers them in its order, from 1.
func (m *Member) Completed(joint uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.joint = joint
}

// Calling returns a peer that is in a later call than this rank's latest and has not completed the joint call of that
// number, or -1, and a channel that is closed when that may have changed. A peer that has completed the joint call may
// be in a later call while this rank is still in the joint call.
func (m *Member) Calling(joint uint64) (peer int, changed <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, q := range m.queues {
		for _, msg := range q {
			if msg.place.number > m.number && msg.kind == kindState && msg.joint < joint {
				return p, m.changed
			}
		}
	}
	return -1, m.changed
}

// EveryJoint is the number that stands for all joint calls to come.
const EveryJoint = math.MaxUint64

// GiveUp tells the peers that this rank has given up the joint call of that number because of err, for which rank
// blames is to blame, -1: this rank.
func (m *Member) GiveUp(joint uint64, blames int, err error) {
	m.mu.Lock()
	completed := m.joint
	m.mu.Unlock()
	m.tell(&message{kind: kindGaveUp, place: place{number: joint}, blames: -1, joint: completed,
		why: bootstrap.EncodeFailure(blames, err)})
}

// tell sends msg, which has no state, to all other ranks.
func (m *Member) tell(msg *message) {
	ctx, stop := context.WithTimeout(context.Background(), sendWait)
	defer stop()
	msg.done, msg.known = NewSet(m.size), make([]*Contribution, m.size)
	m.send(ctx, msg, msg.done)
}

// GivenUp returns the error of a peer that has given up the joint call of that number, and the rank to blame, or nil.
func (m *Member) GivenUp(joint uint64) (blames int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, msg := range m.gaveUp {
		if msg == nil || joint <= msg.joint || joint > msg.place.number {
			continue
		}
		blames, err = bootstrap.DecodeFailure(msg.why, bootstrap.MaxWorldSize) // a new rank of a Grow is beyond m.size
		if blames < 0 || blames == m.rank {
			blames = p
		}
		return blames, fmt.Errorf("%w: rank %d: %w", bootstrap.ErrGaveUp, p, err)
	}
	return -1, nil
}

// Begin begins a call and returns its number, which is not below least.
func (m *Member) Begin(least uint64) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.number = max(m.number+1, least)
	return m.number
}

// Agree takes part in a step of the current call. Its errors are of Part and *Overtaken.
func (m *Member) Agree(ctx context.Context, step uint32, mine Contribution) (*Outcome, error) {
	m.Listen()
	m.mu.Lock()
	s := newState(m.rank, m.size, place{m.number, step}, mine)
	s.joint = m.joint
	m.mu.Unlock()
	m.send(ctx, s.message(), s.done)
	end, late := ctx.Done(), (<-chan time.Time)(nil)
	for {
		changed, arrived, err := m.digest(s)
		if err != nil {
			return nil, err
		}
		if s.decided() {
			m.send(ctx, s.message(), s.done)
			m.sendOutcome(s)
			return &Outcome{Known: s.known, place: s.place}, nil
		}
		if changed {
			m.send(ctx, s.message(), s.done)
			continue
		}
		select {
		case <-arrived:
		case <-end:
			missing := s.waitsFor()
			if len(missing) > 1 && late == nil {
				late, end = time.After(lateWait), nil
				continue
			}
			return nil, fault.Blame(Part, missing[0], "still waiting for ranks %v: %w", missing, context.Cause(ctx))
		case <-late:
			end, late = ctx.Done(), make(chan time.Time)
		}
	}
}

// digest processes the received messages. The channel is closed when there are more.
func (m *Member) digest(s *state) (changed bool, arrived <-chan struct{}, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	arrived = m.changed
	for p := range m.queues {
		for len(m.queues[p]) > 0 && err == nil && !s.outcome {
			msg := m.queues[p][0]
			if !s.done.Has(p) && msg.kind == kindState && s.place.number < msg.place.number {
				return false, nil, &Overtaken{msg.place.number}
			}
			if msg.kind != kindWithdrawn && s.place.number == msg.place.number && s.place.step < msg.place.step {
				break // it is for the next step
			}
			m.queues[p] = m.queues[p][1:]
			var on bool
			on, err = m.consider(s, p, msg)
			changed = changed || on
		}
		if cause := m.gone[p]; cause != nil && err == nil && len(m.queues[p]) == 0 && !s.done.Has(p) && !s.outcome {
			if !errors.Is(cause, bootstrap.ErrPeerDead) {
				err = fault.Blame(Part, p, "%w: rank %d: %w", ErrLeft, p, cause)
			}
			changed = s.lose(p) || changed
		}
	}
	if err == nil && !s.outcome && m.without >= 0 {
		err = fault.Blame(Part, m.without, "%w: rank %d and others have gone on without it", ErrExcluded, m.without)
	}
	return changed, arrived, err
}

// consider processes one message.
func (m *Member) consider(s *state, p int, msg *message) (changed bool, err error) {
	switch {
	case msg.kind == kindDecided && msg.done.Has(m.rank):
		m.without = p
	case s.done.Has(p) || msg.place.number != s.place.number:
	case msg.kind == kindWithdrawn:
		return false, withdrawn(p, msg.blames)
	case msg.done.Has(m.rank):
		return false, fault.Blame(Part, p, "%w: rank %d goes on without it", ErrExcluded, p)
	case msg.place == s.place:
		return s.take(p, msg), nil
	}
	return false, nil
}

func withdrawn(peer, blames int) error {
	if blames < 0 {
		return fault.Blame(Part, peer, "%w: rank %d", ErrWithdrawn, peer)
	}
	return fault.Blame(Part, blames, "%w: rank %d, because of rank %d", ErrWithdrawn, peer, blames)
}

// lateWait is how long a rank that is late and waits for several ranks listens for one that knows which is to blame.
const lateWait = 200 * time.Millisecond

// sendWait bounds a send to a peer that may not be listening.
const sendWait = 500 * time.Millisecond

// send sends msg to all ranks except those in done. If a send fails because the peer is dead, receive detects that.
func (m *Member) send(ctx context.Context, msg *message, done Set) {
	b := msg.encode()
	for i := 1; i < m.size; i++ {
		if p := (m.rank + i) % m.size; !done.Has(p) {
			_ = m.boot.Send(ctx, p, m.tag, b)
		}
	}
}

// sendOutcome sends the outcome to excluded ranks, because they may be alive. It does not wait for them.
func (m *Member) sendOutcome(s *state) {
	b := s.message().encode()
	m.mu.Lock()
	defer m.mu.Unlock()
	for p := range m.size {
		if p == m.rank || !s.done.Has(p) || m.gone[p] != nil || m.closed {
			continue
		}
		m.tasks.Go(func() {
			ctx, stop := context.WithTimeout(context.Background(), sendWait)
			defer stop()
			_ = m.boot.Send(ctx, p, m.tag, b)
		})
	}
}

// Withdraw ends the current call: this rank has given up, because of rank blames (-1: none).
func (m *Member) Withdraw(blames int) {
	m.tell(&message{kind: kindWithdrawn, place: place{number: m.number}, blames: blames})
}
