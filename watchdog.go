package goccl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/goccl/goccl/collective/fault"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/watch/judge"
	"github.com/goccl/goccl/watch/record"
)

// watchdog finds out why an operation waits.
//
//  1. The recorder's watch calls long for an operation that waits. Every rank that waits does what follows by itself.
//  2. The rank asks its peers for their records, over the bootstrap. A goroutine of each peer answers, whatever its
//     streams and callers do.
//  3. It waits for the answers, at most patience. Of a rank of this host that is silent it reads the state in /proc;
//     of one on another host, a neighbour that answers reads it.
//  4. judge.Judge names the reason. If the operation still waits, the verdict goes to the records, to the log of the
//     first of the ranks that wait, and to the error if the operation fails.
type watchdog struct {
	c *Comm

	mu      sync.Mutex // guards the fields below
	closed  bool
	busy    bool // a case is open
	asked   uint64
	answers map[int]*judge.Report // to the question of number asked
	more    chan struct{}         // gets a value at each answer
	deaths  map[int]string
	left    map[int]bool // ranks that have left and are not dead
	cases   sync.WaitGroup

	logged string // kind, rank and operation of the latest verdict that was logged; of the case that is open
}

// note is a message between watchdogs.
type note struct {
	Ask    uint64        `json:"ask"` // number of the question
	Report *judge.Report `json:"report,omitempty"`
}

const (
	// mostAsked bounds the ranks that are asked; the engine's waits come first.
	mostAsked = 64
	// mostNote bounds an answer: a rank that is of this job sends it, but a fault in it must not harm this one.
	mostNote = 4 << 20
	// A rank waits at least answerLimit, and at most mostPatience, for the records of its peers.
	answerLimit, mostPatience = time.Second, 4 * time.Second
	// Operations in an answer, of the communicator in question and of each other one.
	mostOperations, mostOthers = 128, 8
	// slowFrom is the part of the time in operations from which it is worth while to look for a slow rank.
	slowFrom = 0.3
)

func newWatchdog(c *Comm) *watchdog {
	w := &watchdog{c: c, answers: map[int]*judge.Report{}, more: make(chan struct{}, 1), deaths: map[int]string{},
		left: map[int]bool{}}
	for p := range c.size {
		if p != c.rank {
			c.watch.Go(func() { w.hear(p) })
		}
	}
	return w
}

// close ends the cases. It accepts a nil w.
func (w *watchdog) close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cases.Wait()
}

// hear answers the questions of a peer, and takes its answers, until the bootstrap is closed or the peer is gone.
func (w *watchdog) hear(peer int) {
	for {
		b, err := w.c.boot.Recv(context.Background(), peer, tags.Verdict)
		if errors.Is(err, bootstrap.ErrTimeout) {
			continue
		}
		if err != nil {
			w.mu.Lock()
			if errors.Is(err, bootstrap.ErrPeerDead) {
				w.deaths[peer] = "its connection has ended without a goodbye"
			} else {
				w.left[peer] = true
			}
			w.mu.Unlock()
			w.wake()
			return
		}
		var n note
		if len(b) > mostNote || json.Unmarshal(b, &n) != nil {
			continue
		}
		if n.Report == nil {
			w.send(peer, note{Ask: n.Ask, Report: w.report()})
			continue
		}
		w.mu.Lock()
		if n.Ask == w.asked && n.Report.Rank == peer {
			n.Report.Clean()
			w.answers[peer] = n.Report
		}
		w.mu.Unlock()
		w.wake()
	}
}

// wake tells ask that there is news.
func (w *watchdog) wake() {
	select {
	case w.more <- struct{}{}:
	default:
	}
}

func (w *watchdog) send(peer int, n note) {
	b, err := json.Marshal(n)
	if err != nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), answerLimit)
	defer stop()
	_ = w.c.boot.Send(ctx, peer, tags.Verdict, b) // a peer that does not get it has other troubles
}

// mismatch judges an operation that an engine has found to differ from the peers', on the caller's goroutine. Peers
// that have found it, too, may have ended already: then the engine's own reason is the verdict.
func (w *watchdog) mismatch(err *Error) *Verdict {
	o := w.c.record.Find(isMessage(err), err.Seq)
	if o == nil || !w.take() {
		return nil
	}
	defer w.give()
	reports, _ := w.ask()
	q := w.question(*o, 0, reports)
	v := judge.Judge(q)
	if v == nil || v.Kind != fault.VerdictMismatch {
		v = &Verdict{Kind: fault.VerdictMismatch, Rank: -1, What: err.Err.Error(),
			Mend:      "all ranks must call the same operations with the same arguments in the same order",
			Operation: o.Collective, Number: o.Number,
			By: w.c.rank, Communicator: fmt.Sprintf("%016x", w.c.id)}
	}
	w.say(v, q.First(v) == w.c.rank)
	return v
}

// late judges an operation whose wait has ended by its deadline, on the caller's goroutine. It accepts a nil w.
func (w *watchdog) late(err *Error) *Verdict {
	if w == nil {
		return nil
	}
	o := w.c.record.Find(isMessage(err), err.Seq)
	if o == nil || !w.take() {
		return nil
	}
	defer w.give()
	reports, ok := w.ask()
	if !ok {
		return nil
	}
	q := w.question(*o, 0, reports)
	v := judge.Judge(q)
	if v != nil {
		w.say(v, q.First(v) == w.c.rank)
	}
	return v
}

func (w *watchdog) question(o record.Operation, waited time.Duration, reports []*judge.Report) *judge.Question {
	return &judge.Question{Me: w.c.rank, Op: o, Waited: waited, Reports: reports}
}

// take opens a case, after an earlier one has ended. It returns false if w is closed.
func (w *watchdog) take() bool {
	for {
		w.mu.Lock()
		closed, busy := w.closed, w.busy
		w.busy = busy || !closed
		w.mu.Unlock()
		if closed || !busy {
			return !closed
		}
		time.Sleep(time.Millisecond)
	}
}

func (w *watchdog) give() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
}

// begin runs a case on a new goroutine, with what the ranks report. It returns false if one is open, or w is closed.
func (w *watchdog) begin(f func(reports []*judge.Report)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.busy || w.c.engine.Err() != nil {
		return false
	}
	w.busy = true
	w.cases.Go(func() {
		defer w.give()
		if reports, ok := w.ask(); ok {
			f(reports)
		}
	})
	return true
}

// long implements record.Watch.Long.
func (w *watchdog) long(o record.Operation, waited time.Duration) bool {
	return w.begin(func(reports []*judge.Report) {
		q := w.question(o, waited, reports)
		v := judge.Judge(q)
		now := w.c.record.Find(o.Message, o.Number)
		if v != nil && (now == nil || now.IsOpen()) && w.c.engine.Err() == nil {
			w.say(v, q.First(v) == w.c.rank)
		}
	})
}

// over implements record.Watch.Over: an operation has ended after a long wait. Which rank called it late?
func (w *watchdog) over(o record.Operation) {
	waited := time.Duration(o.Ended - max(o.Started, o.Enqueued))
	if o.State == record.Failed {
		return
	}
	w.begin(func(reports []*judge.Report) {
		q := w.question(o, waited, reports)
		v := judge.Late(q, min(waited/2, w.c.cfg.settings.VerdictAfter))
		w.say(v, strings.HasSuffix(w.logged, opKey(o.Collective, o.Number))) // it has logged the wait
	})
}

// window implements record.Watch.Window.
func (w *watchdog) window(part float64) {
	if part < slowFrom || w.c.rank%(w.c.size/mostAsked+1) != 0 {
		return
	}
	w.begin(func(reports []*judge.Report) {
		v := judge.Slow(w.c.rank, reports)
		w.say(v, v != nil && (&judge.Question{Me: w.c.rank, Reports: reports}).First(v) == w.c.rank)
	})
}

// opKey ends the keys of verdicts on an operation.
func opKey(operation string, number uint64) string { return fmt.Sprintf(" %s %d", operation, number) }

// say records a verdict, and logs it if this rank is to tell the job and has not said it. The case is open.
func (w *watchdog) say(v *fault.Verdict, tell bool) {
	if v == nil {
		return
	}
	old := w.c.record.Verdict()
	if old != nil && v.Kind == fault.VerdictAborted && old.Kind != v.Kind && !old.Vague() &&
		old.Operation == v.Operation && old.Number == v.Number {
		return // the end of a rank is a consequence of what was found before
	}
	v.Found = record.Now()
	w.c.record.Judged(v)
	key := fmt.Sprint(v.Kind, v.Rank) + opKey(v.Operation, v.Number)
	if !tell || w.logged == key {
		return
	}
	w.logged = key
	attrs := []any{"verdict", string(v.Kind), "rank", v.Rank, "by", w.c.rank, "operation", v.Operation, "number", v.Number,
		"for", v.For, "why", v.String()}
	if w.c.cfg.Name != "" {
		attrs = append(attrs, "communicator", w.c.cfg.Name)
	}
	slog.Warn("an operation waits: the ranks have compared their records", attrs...)
}
