package membership

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/agreement"
	"github.com/goccl/goccl/job/bootstrap"
)

// A JointCall is a Split or a Grow: all ranks of the communicator make it together.
//
//  1. Every rank numbers its joint calls. The ranks exchange the numbers and continue with the largest, because a call
//     that failed may have been counted on some ranks only.
//  2. A peer that calls Shrink ends this rank's joint call, because the peer will not take part, unless it has already
//     completed the call: its messages of Shrink carry the number of its latest completed joint call.
//  3. A rank that fails before it makes its communicator, or aborts, tells the others, whose calls end, too.
//  4. With Config.OpTimeout a peer of this host ends the call whose process is stopped (SIGSTOP, a debugger) when the
//     call takes longer. Config.Timeout is for peers that are slow: making a communicator takes seconds on GPUs.
type JointCall struct {
	g      *Group
	number atomic.Uint64
	stop   func()
	// Joins says that the rank makes its communicator: those who wait for it there learn of a failure by themselves.
	Joins bool
	// Last is for the step in which the ranks tell each other that they have succeeded. Only a stopped peer ends it:
	// where it begins on one rank, it begins on all, whatever becomes of the communicator.
	Last context.Context
}

// BeginJoint begins a joint call. The context derived from ctx also ends with the communicator, or when a peer that has
// not completed this call calls Shrink. The caller calls End.
func (g *Group) BeginJoint(ctx context.Context, op string) (context.Context, *JointCall) {
	last, cancelAll := context.WithCancelCause(ctx)
	ctx, cancel := context.WithCancelCause(last)
	bounded, stop := g.Status.Bound(ctx)
	j := &JointCall{g: g, Last: last}
	g.Agreement.Listen()
	j.number.Store(g.joint.Load() + 1)
	begun := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		looks := g.stoppedLooks()
		since := map[int]time.Time{} // peers that are stopped
		for {
			peer, changed := g.Agreement.Calling(j.number.Load())
			if peer >= 0 {
				cancel(g.Fault(op, peer, fmt.Errorf("%w: this rank is in %s and the peer in Shrink of the same communicator",
					fault.ErrMismatch, op)))
				changed = nil
			} else if blames, err := g.Agreement.GivenUp(j.number.Load()); err != nil {
				cancel(g.Fault(op, blames, bootstrap.Kind(err)))
				changed = nil
			}
			select {
			case <-changed:
			case now := <-looks:
				if stopped := g.stoppedFor(since, now, g.OpTimeout/2); stopped != nil && now.Sub(begun) > g.OpTimeout {
					stopped.Op = op
					cancelAll(stopped)
					return
				}
			case <-last.Done():
				return
			}
		}
	}()
	j.stop = func() {
		stop()
		cancelAll(nil)
		<-done
	}
	return bounded, j
}

// Bound derives a context from ctx that ends with the communicator, or when a peer has aborted: JointError then returns
// the cause. The caller calls stop.
func (g *Group) Bound(ctx context.Context, op string) (bounded context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	bounded, unbind := g.Status.Bound(ctx)
	g.Agreement.Listen()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			_, changed := g.Agreement.Calling(0)
			if blames, err := g.Agreement.GivenUp(agreement.EveryJoint); err != nil {
				cancel(g.Fault(op, blames, bootstrap.Kind(err)))
				return
			}
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
		}
	}()
	return bounded, func() {
		unbind()
		cancel(nil)
		<-done
	}
}

// stoppedLooks tells when to look for stopped peers: never without OpTimeout.
func (g *Group) stoppedLooks() <-chan time.Time {
	if g.OpTimeout <= 0 {
		return nil
	}
	return time.Tick(max(g.OpTimeout/8, 10*time.Millisecond))
}

// stoppedFor looks which peers of this host are stopped. It returns an error that names one that has been so for some
// time, nil if there is none.
func (g *Group) stoppedFor(since map[int]time.Time, now time.Time, long time.Duration) *fault.Error {
	who, hosts := g.members.Load(), g.boot.Hosts()
	if who == nil {
		return nil
	}
	for p, o := range who.Ranks {
		if p == g.rank || hosts[p] != hosts[g.rank] || !strings.EqualFold(o.State(), "t") {
			delete(since, p)
			continue
		}
		if _, ok := since[p]; !ok {
			since[p] = now
		}
		if now.Sub(since[p]) < long {
			continue
		}
		return &fault.Error{Comm: g.Name, Rank: g.rank, Peer: p, Verdict: g.verdict(false, p),
			Err: fmt.Errorf("%w: the peer does not run: its process is stopped", fault.ErrTimeout)}
	}
	return nil
}

// Stopped returns an error that names a peer of this host that is stopped now, or nil.
func (g *Group) Stopped() *fault.Error {
	return g.stoppedFor(map[int]time.Time{}, time.Now(), 0)
}

// mark appends the number of the call to a message.
func (j *JointCall) mark(message []byte) []byte {
	return binary.LittleEndian.AppendUint64(message, j.number.Load())
}

// take continues with the larger number: this rank's, or a peer's number as mark has written it.
func (j *JointCall) take(number []byte) {
	j.number.Store(max(j.number.Load(), binary.LittleEndian.Uint64(number)))
}

// End ends the call, which has succeeded or failed with err.
func (j *JointCall) End(err error) {
	number := j.number.Load()
	j.g.joint.Store(number)
	if err == nil {
		j.g.Agreement.Completed(number)
	} else if !j.Joins {
		j.g.Agreement.GiveUp(number, Blamed(err), bootstrap.Told(err))
	}
	j.stop()
}

// JointError returns the error of a call on all ranks that failed with err: the communicator's end, a peer that has
// aborted, is in Shrink or stopped, or err itself. A peer mostly shrinks or gives up because a rank has died, which
// this rank may learn a little later.
func (g *Group) JointError(ctx context.Context, op string, err error) error {
	elsewhere := fault.Of(context.Cause(ctx))
	if (elsewhere != nil || errors.Is(err, bootstrap.ErrGaveUp)) && !g.Status.endsSoon() && elsewhere != nil {
		return elsewhere
	}
	return g.Ended(op, err)
}

// splitMark is the prefix of the messages of a Split, which tells them from other messages. A random number of each
// rank follows, so that the messages together identify this one call.
const splitMark = "split"

// Colors exchanges the colors and keys of a Split. It returns the ranks of this rank's color, ordered by key, and the
// space of their bootstrap group.
func (j *JointCall) Colors(ctx context.Context, color, key int) (ranks []int, space int, err error) {
	g := j.g
	mine := binary.LittleEndian.AppendUint64([]byte(splitMark), rand.Uint64())
	mine = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(mine, uint64(color)), uint64(key))
	all, err := g.boot.AllGather(ctx, j.mark(mine))
	if err != nil {
		return nil, 0, g.JointError(ctx, "split", err)
	}
	keys := map[int]int{}
	agreed := []byte(splitMark)
	for r, b := range all {
		if len(b) != len(splitMark)+32 || string(b[:len(splitMark)]) != splitMark {
			return nil, 0, g.Fault("split", r, fmt.Errorf("%w: this rank is in Split and the peer in something else: %s",
				fault.ErrMismatch, sameCalls))
		}
		agreed = append(agreed, b...)
		b = b[len(splitMark)+8:]
		j.take(b[16:])
		if int(int64(binary.LittleEndian.Uint64(b))) == color {
			ranks, keys[r] = append(ranks, r), int(int64(binary.LittleEndian.Uint64(b[8:])))
		}
	}
	sort.SliceStable(ranks, func(i, j int) bool { return keys[ranks[i]] < keys[ranks[j]] })
	return ranks, bootstrap.OnceSpace(agreed), nil
}

const sameCalls = "all ranks must make the same calls in the same order"

// growMark is the prefix of the messages of a Grow, which tells them from other messages. The size, the number of the
// call and the id, if this rank has it, follow.
const growMark = "grow"

// AgreeOnID returns the id that one rank has, for a Grow to size ranks.
func (j *JointCall) AgreeOnID(ctx context.Context, size int, id *bootstrap.UniqueID) (
	agreed bootstrap.UniqueID, err error,
) {
	g := j.g
	mine := binary.LittleEndian.AppendUint64([]byte(growMark), uint64(size))
	common := len(mine)
	mine = j.mark(mine)
	length := len(mine)
	if id != nil {
		mine = append(mine, id[:]...)
	}
	all, err := g.boot.AllGather(ctx, mine)
	if err != nil {
		return agreed, g.JointError(ctx, "grow", err)
	}
	from := -1
	for r, b := range all {
		if len(b) < length || string(b[:common]) != string(mine[:common]) {
			return agreed, g.Fault("grow", r, fmt.Errorf("%w: this rank is in Grow to %d ranks and the peer in something else: "+
				"%s", fault.ErrMismatch, size, sameCalls))
		}
		j.take(b[common:])
		if len(b) == length {
			continue
		}
		if from >= 0 {
			return agreed, g.Errorf("grow", fault.ErrInvalidArgument, "ranks %d and %d both have a unique id: one rank "+
				"makes it", from, r)
		}
		if agreed, err = bootstrap.ParseUniqueID(b[length:]); err != nil {
			return agreed, g.Wrap("grow", err)
		}
		from = r
	}
	if from < 0 {
		return agreed, g.Errorf("grow", fault.ErrInvalidArgument, "no rank has a unique id: one makes it and "+
			"passes it to Grow")
	}
	return agreed, nil
}
