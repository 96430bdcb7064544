package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/agreement"
	"github.com/goccl/goccl/job/bootstrap"
)

// Group is one rank's membership in a communicator: whether it and its peers are still there, and who is to blame.
type Group struct {
	Config
	Status    Status
	Agreement *agreement.Member

	boot       bootstrap.Bootstrap
	rank, size int
	members    atomic.Pointer[Members] // nil until the ranks have agreed
	joint      atomic.Uint64           // number of joint calls so far
	tasks      sync.WaitGroup          // goroutines that end with boot
}

// Config is the part of a communicator's configuration that membership needs.
type Config struct {
	Name               string // of the communicator, for errors
	Timeout, OpTimeout time.Duration
	Quorum             setting.Quorum
	Vote               func(ctx context.Context, id uint64, left []int) error // nil: none
	Voting             bool                                                   // a rank has a Vote
	Job                []int                                                  // numbers of the ranks in the job, as InJob
	// Verdict words what this rank, me, has found about another one: its process, at, is dead, or else stopped.
	Verdict func(dead bool, me, rank int, at Process) *fault.Verdict
}

// New makes the membership of the rank of boot, a group that only this communicator uses. From here on the death of a
// peer ends the Status.
func New(boot bootstrap.Bootstrap, cfg Config) *Group {
	g := &Group{Config: cfg, boot: boot, rank: boot.Rank(), size: boot.WorldSize(),
		Agreement: agreement.New(boot, tags.Agreement)}
	g.Status.begin()
	failures, givenUp := boot.Failures(), bootstrap.GivenUp(boot)
	g.tasks.Go(func() { g.watch(failures) })
	g.tasks.Go(func() { g.watch(givenUp) })
	return g
}

// Wait waits for the goroutines of g. The caller has closed the bootstrap.
func (g *Group) Wait() {
	g.tasks.Wait()
	g.Agreement.Close()
}

// Aborted tells peers in joint calls that this rank makes no such call any more.
func (g *Group) Aborted() {
	cause := g.Status.Err()
	g.Agreement.GiveUp(agreement.EveryJoint, Blamed(cause), bootstrap.Told(cause))
}

// GiveUp tells the peers that the set-up of the communicator has failed. In err, which Blame returned, rank r is called
// ranks[r].
func (g *Group) GiveUp(err error, ranks []int) {
	bootstrap.GiveUp(g.boot, slices.Index(ranks, Blamed(err)), bootstrap.Told(err))
}

// Blamed returns the rank that an error blames, or -1.
func Blamed(err error) int {
	if ae := fault.Of(err); ae != nil {
		return ae.Peer
	}
	return -1
}

// Wrap converts an error of op to a *fault.Error with a kind of package fault.
func Wrap(name, op string, rank int, err error) error {
	if ae := fault.Of(err); ae != nil {
		// An error of set-up has no name and is not yet shared, so it may be changed. Errors of a communicator without a
		// name are shared with its watchdog.
		if ae.Comm == "" && name != "" {
			ae.Comm = name
		}
		return err
	}
	return &fault.Error{Comm: name, Op: op, Rank: rank, Peer: fault.PeerOf(err), Err: bootstrap.Kind(err)}
}

// Wrap converts an error of op to a *fault.Error.
func (g *Group) Wrap(op string, err error) error { return Wrap(g.Name, op, g.rank, err) }

// Errorf makes an error of this rank that blames no peer.
func (g *Group) Errorf(op string, kind error, format string, args ...any) error {
	return g.Fault(op, -1, fmt.Errorf("%w: "+format, append([]any{kind}, args...)...))
}

// Fault makes an error of this rank that blames a peer, or none (-1).
func (g *Group) Fault(op string, peer int, err error) *fault.Error {
	return &fault.Error{Comm: g.Name, Op: op, Rank: g.rank, Peer: peer, Err: err}
}

// Ended returns the error of a call that waited with Status.Bound: the cause of the communicator's end, or else the
// call's own error.
func (g *Group) Ended(op string, err error) error {
	cause := g.Status.detail()
	switch ae := fault.Of(cause); {
	case cause == nil:
		return g.Wrap(op, err)
	case ae != nil:
		return &fault.Error{Comm: g.Name, Op: op, Rank: g.rank, Peer: ae.Peer, Err: ae.Err, Verdict: ae.Verdict}
	}
	return g.Errorf(op, fault.ErrAborted, "%w", cause)
}

// watch turns the death of a rank, or a set-up that a rank has given up, into an abort that names the
// rank to blame.
func (g *Group) watch(failures <-chan bootstrap.PeerFailure) {
	for f := range failures {
		e := g.Fault("communicator", f.Rank, bootstrap.Kind(f.Err))
		if errors.Is(e, fault.ErrPeerDead) {
			e.Verdict = g.Dead(f.Rank)
		}
		g.Status.EndByPeer(e)
	}
}

// BlameDelay is how long a set-up error that a peer's death may have caused waits for the report of that death.
const BlameDelay = 200 * time.Millisecond

// endsSoon waits for the end of the communicator, at most BlameDelay. It reports whether it has ended.
func (s *Status) endsSoon() bool {
	select {
	case <-s.ctx.Done():
		return true
	case <-time.After(BlameDelay):
		return false
	}
}

// Blame converts err, the error of a failed set-up, to an error in which rank r is called ranks[r]. If a rank has died
// or given up, that is the cause and is returned instead of err, which is only its consequence. A deadline is blamed on
// a rank of this host that is stopped, if there is one: the rank that err names may wait for it, with the same
// deadline. ended, if not nil, is why the caller has ended the set-up: it comes from the parent, so it has the right
// names.
func (g *Group) Blame(op string, err, ended error, ranks []int) error {
	renamed := func(e *fault.Error, kind error) error {
		peer := e.Peer
		if peer >= 0 && peer < len(ranks) {
			peer = ranks[peer]
		}
		return &fault.Error{Op: op, Rank: ranks[g.rank], Peer: peer, Err: kind}
	}
	own := func() error {
		switch ae := fault.Of(err); {
		case ae == nil:
		case ae == fault.Of(ended):
			return &fault.Error{Op: op, Rank: ranks[g.rank], Peer: ae.Peer, Err: ae.Err}
		default:
			return renamed(ae, ae.Err)
		}
		return Wrap(g.Name, op, ranks[g.rank], err)
	}
	mine := own()
	for _, kind := range []error{fault.ErrUnsupported, fault.ErrInvalidArgument, fault.ErrMismatch,
		bootstrap.ErrProtocol, device.ErrOutOfMemory} {
		if errors.Is(mine, kind) {
			return mine
		}
	}
	if e := g.Stopped(); errors.Is(mine, fault.ErrTimeout) && e != nil {
		return renamed(e, e.Err)
	}
	g.Status.endsSoon()
	if e := fault.Of(g.Status.Err()); e != nil {
		return renamed(e, e.Err)
	}
	return mine
}

// JoinError returns the error of a rank that could not join the grown communicator. The death of a rank of g explains
// it best: a rank that knows of it gives up, and this rank may learn of that first.
// Of the death of a new rank g does not learn.
func (g *Group) JoinError(ctx context.Context, err error) error {
	named := g.Wrap("grow", err)
	newcomer := errors.Is(named, fault.ErrPeerDead) && Blamed(named) >= g.size
	if !newcomer && !errors.Is(err, fault.ErrTimeout) {
		g.Status.endsSoon()
	}
	return g.JointError(ctx, "grow", err)
}

// Dead is the verdict on a rank whose death the bootstrap has reported.
func (g *Group) Dead(rank int) *fault.Verdict { return g.verdict(true, rank) }

func (g *Group) verdict(dead bool, rank int) *fault.Verdict {
	var at Process
	who := g.members.Load()
	if who != nil && rank < len(who.Ranks) {
		at = who.Ranks[rank]
	}
	v := g.Verdict(dead, g.rank, rank, at)
	if who != nil {
		v.Communicator = who.Name()
	}
	return v
}
