package goccl

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/watch/judge"
	"github.com/goccl/goccl/watch/record"
)

// A jointCall is a Split or a Grow: all ranks of the communicator make it together.
//
//  1. Every rank numbers its joint calls. The ranks exchange the numbers and continue with the largest, because a call
//     that failed may have been counted on some ranks only.
//  2. A peer that calls Shrink ends this rank's joint call, because the peer will not take part, unless it has already
//     completed the call: its messages of Shrink carry the number of its latest completed joint call.
//  3. A rank that fails before it makes its communicator, or aborts, tells the others, whose calls end, too.
//  4. With Config.OpTimeout a peer of this host ends the call whose process is stopped (SIGSTOP, a debugger) when the
//     call takes longer. Config.Timeout is for peers that are slow: making a communicator takes seconds on GPUs.
type jointCall struct {
	c      *Comm
	number atomic.Uint64
	stop   func()
	// joins says that the rank makes its communicator: those who wait for it there learn of a failure by themselves.
	joins bool
	// last is for the step in which the ranks tell each other that they have succeeded. Only a stopped peer ends it:
	// where it begins on one rank, it begins on all, whatever becomes of the communicator.
	last context.Context
}

// beginJoint begins a joint call. The context derived from ctx also ends with the communicator, or when a peer that has
// not completed this call calls Shrink. The caller calls end.
func (c *Comm) beginJoint(ctx context.Context, op string) (context.Context, *jointCall) {
	last, cancelAll := context.WithCancelCause(ctx)
	ctx, cancel := context.WithCancelCause(last)
	bounded, stop := c.status.bound(ctx)
	j := &jointCall{c: c, last: last}
	c.council.Listen()
	j.number.Store(max(c.joint.Load(), c.council.LatestGivenUp()) + 1)
	begun := time.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		looks, quit := c.stoppedLooks()
		defer quit()
		since := map[int]time.Time{} // peers that are stopped
		for {
			peer, changed := c.council.Calling(j.number.Load())
			if peer >= 0 {
				cancel(&Error{Comm: c.cfg.Name, Op: op, Rank: c.rank, Peer: peer,
					Err: fmt.Errorf("%w: this rank is in %s and the peer in Shrink of the same communicator", ErrMismatch, op)})
				changed = nil
			} else if blames, err := c.council.GivenUp(j.number.Load()); err != nil {
				cancel(&Error{Comm: c.cfg.Name, Op: op, Rank: c.rank, Peer: blames, Err: collective.Kind(err)})
				changed = nil
			}
			select {
			case <-changed:
			case now := <-looks:
				if stopped := c.stoppedFor(since, now, c.cfg.OpTimeout/2); stopped != nil && now.Sub(begun) > c.cfg.OpTimeout {
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

// stoppedLooks tells when to look for stopped peers: never without OpTimeout.
func (c *Comm) stoppedLooks() (looks <-chan time.Time, quit func()) {
	if c.cfg.OpTimeout <= 0 {
		return nil, func() {}
	}
	t := time.NewTicker(max(c.cfg.OpTimeout/8, 10*time.Millisecond))
	return t.C, t.Stop
}

// stoppedFor looks which peers of this host are stopped. It returns an error that names one that has been so for some
// time, nil if there is none.
func (c *Comm) stoppedFor(since map[int]time.Time, now time.Time, long time.Duration) *Error {
	who, hosts := c.roster.Load(), c.boot.Hosts()
	if who == nil {
		return nil
	}
	for p, o := range who.ranks {
		if p == c.rank || hosts[p] != hosts[c.rank] || !strings.EqualFold(o.state(), "t") {
			delete(since, p)
			continue
		}
		if _, ok := since[p]; !ok {
			since[p] = now
		}
		if now.Sub(since[p]) < long {
			continue
		}
		reports := make([]*judge.Report, c.size)
		reports[p] = &judge.Report{Rank: p, Host: o.host, PID: o.pid, State: "T"}
		v := judge.Judge(&judge.Question{Me: c.rank, Reports: reports})
		v.Communicator, v.Found = fmt.Sprintf("%016x", who.id), record.Now()
		return &Error{Comm: c.cfg.Name, Rank: c.rank, Peer: p, Verdict: v,
			Err: fmt.Errorf("%w: the peer does not run: its process is stopped", ErrTimeout)}
	}
	return nil
}

// stopped returns an error that names a peer of this host that is stopped now, or nil.
func (c *Comm) stopped() *Error {
	return c.stoppedFor(map[int]time.Time{}, time.Now(), 0)
}

// mark appends the number of the call to a message.
func (j *jointCall) mark(message []byte) []byte {
	return binary.LittleEndian.AppendUint64(message, j.number.Load())
}

// take continues with the larger number: this rank's, or that of a peer as mark has written it.
func (j *jointCall) take(number []byte) {
	j.number.Store(max(j.number.Load(), binary.LittleEndian.Uint64(number)))
}

// end ends the call, which has succeeded or failed with err.
func (j *jointCall) end(err error) {
	number := j.number.Load()
	j.c.joint.Store(number)
	if err == nil {
		j.c.council.Completed(number)
	} else if !j.joins {
		j.c.council.GiveUp(number, blamed(err), collective.Told(err))
	}
	j.stop()
}

// jointError returns the error of a Split or Grow that failed with err: the communicator's end, a peer that is in
// Shrink or stopped, or err itself. A peer mostly shrinks because a rank has died, which this rank may learn a little
// later.
func (c *Comm) jointError(ctx context.Context, op string, err error) error {
	var elsewhere *Error
	if errors.As(context.Cause(ctx), &elsewhere) {
		select {
		case <-c.status.ctx.Done():
		case <-time.After(blameDelay):
			return elsewhere
		}
	}
	return c.ended(op, err)
}
