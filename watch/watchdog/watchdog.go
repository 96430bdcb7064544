package watchdog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/membership"
	"github.com/goccl/goccl/watch/judge"
	"github.com/goccl/goccl/watch/record"
)

// Config names the communicator that a Watchdog watches.
type Config struct {
	Group     *membership.Group
	Device    device.Device
	Record    *record.Recorder // nil: only failures are explained, because nobody sees a wait
	After     time.Duration    // how long a wait is reported; see record.Watch
	OpTimeout time.Duration
}

// Watchdog finds out why operations of one communicator wait.
type Watchdog struct {
	Config
	boot       bootstrap.Bootstrap
	engine     collective.Engine
	rank, size int
	observes   atomic.Bool // Observe has set boot and engine; it stays false if there is nobody to ask

	mu      sync.Mutex // guards the fields below
	closed  bool
	busy    bool // a case is open
	asked   uint64
	answers map[int]*judge.Report // to the question of number asked
	more    chan struct{}         // gets a value at each answer
	deaths  map[int]string
	left    map[int]bool // ranks that have left and are not dead
	cases   sync.WaitGroup
	peers   sync.WaitGroup // goroutines that serve the peers

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
	// stoppedLimit is how long a rank waits if the others are stopped: then it looks again whether they still are.
	stoppedLimit = 100 * time.Millisecond
	// Operations in an answer, of the communicator in question and of each other one.
	mostOperations, mostOthers = 128, 8
	// slowFrom is the part of the time in operations from which it is worth while to look for a slow rank.
	slowFrom = 0.3
)

// New makes the watchdog of a communicator that has no engine yet.
func New(cfg Config) *Watchdog {
	return &Watchdog{Config: cfg, answers: map[int]*judge.Report{}, more: make(chan struct{}, 1), deaths: map[int]string{},
		left: map[int]bool{}}
}

// Observe starts the watch over operations that take long. boot is the group that the engine uses.
func (w *Watchdog) Observe(boot bootstrap.Bootstrap, e collective.Engine) {
	w.boot, w.engine, w.rank, w.size = boot, e, boot.Rank(), boot.WorldSize()
	if w.Record == nil || w.size == 1 {
		return
	}
	w.observes.Store(true)
	bootstrap.Serve(context.Background(), &w.peers, boot, tags.Verdict, w.receive, w.gone)
	to := &record.Watch{After: w.After, Long: w.long, Over: w.over, Window: w.window}
	if w.OpTimeout > 0 && to.After > 0 {
		to.After = min(to.After, w.OpTimeout/2)
	}
	if e, ok := e.(interface{ Waits() []record.Wait }); ok {
		to.Waits = e.Waits
	}
	to.Passed = w.Record.Passed()
	w.Record.Observe(to)
}

// Close ends the cases. It accepts a nil w.
func (w *Watchdog) Close() {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cases.Wait()
}

// Wait waits for the goroutines of w. The caller has closed the bootstrap. It accepts a nil w.
func (w *Watchdog) Wait() {
	if w != nil {
		w.peers.Wait()
	}
}

// receive answers a question of a peer, or takes its answer. It ignores an unreadable message.
func (w *Watchdog) receive(peer int, b []byte) error {
	var n note
	if len(b) > mostNote || json.Unmarshal(b, &n) != nil {
		return nil
	}
	if n.Report == nil {
		w.send(peer, note{Ask: n.Ask, Report: w.report()})
		return nil
	}
	w.mu.Lock()
	if n.Ask == w.asked && n.Report.Rank == peer {
		n.Report.Clean()
		w.answers[peer] = n.Report
	}
	w.mu.Unlock()
	w.wake()
	return nil
}

// gone records that a peer is dead or has left.
func (w *Watchdog) gone(peer int, err error) {
	w.mu.Lock()
	if errors.Is(err, bootstrap.ErrPeerDead) {
		w.deaths[peer] = noGoodbye
	} else {
		w.left[peer] = true
	}
	w.mu.Unlock()
	w.wake()
}

// wake tells ask that there is news.
func (w *Watchdog) wake() { wait.Signal(w.more) }

func (w *Watchdog) send(peer int, n note) {
	b, err := json.Marshal(n)
	if err != nil {
		return
	}
	ctx, stop := context.WithTimeout(context.Background(), answerLimit)
	defer stop()
	_ = w.boot.Send(ctx, peer, tags.Verdict, b) // a peer that does not get it has other troubles
}

// mismatch judges an operation that an engine has found to differ from the peers'. Peers that have found it, too, may
// have ended already: then the engine's own reason is the verdict.
func (w *Watchdog) mismatch(err *fault.Error) *fault.Verdict {
	return w.compare(err, func(q *judge.Question, _ bool) *fault.Verdict {
		if v := judge.Judge(q); v != nil && v.Kind == fault.VerdictMismatch {
			return v
		}
		return &fault.Verdict{Kind: fault.VerdictMismatch, Rank: -1, What: err.Err.Error(),
			Mend:      "all ranks must call the same operations with the same arguments in the same order",
			Operation: q.Op.Collective, Number: q.Op.Number, By: w.rank, Communicator: w.Group.Members().Name()}
	})
}

// late judges an operation whose wait has ended by its deadline.
func (w *Watchdog) late(err *fault.Error) *fault.Verdict {
	return w.compare(err, func(q *judge.Question, complete bool) *fault.Verdict {
		if !complete {
			return nil
		}
		return judge.Judge(q)
	})
}

// compare asks the ranks about the operation that fails with err, on the caller's goroutine, and says what decide
// finds. It returns nil if nobody can be asked. complete is false if the communicator has ended meanwhile.
func (w *Watchdog) compare(err *fault.Error,
	decide func(q *judge.Question, complete bool) *fault.Verdict) *fault.Verdict {
	if !w.observes.Load() {
		return nil
	}
	o := w.Record.Find(isMessage(err), err.Seq)
	if o == nil || !w.take() {
		return nil
	}
	defer w.give()
	reports, complete := w.ask(mostAsked)
	q := &judge.Question{Me: w.rank, Op: *o, Reports: reports}
	v := decide(q, complete)
	w.say(v, v != nil && q.First(v) == w.rank)
	return v
}

// take opens a case, after an earlier one has ended. It returns false if w is closed.
func (w *Watchdog) take() bool {
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

func (w *Watchdog) give() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy = false
}

// begin runs a case on a new goroutine, with what the ranks report. It returns false if one is open, or w is closed.
func (w *Watchdog) begin(f func(reports []*judge.Report)) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.busy || w.ended() != nil {
		return false
	}
	w.busy = true
	w.cases.Go(func() {
		defer w.give()
		if reports, ok := w.ask(mostAsked); ok {
			f(reports)
		}
	})
	return true
}

// long implements record.Watch.Long.
func (w *Watchdog) long(o record.Operation, waited time.Duration) bool {
	return w.begin(func(reports []*judge.Report) {
		q := &judge.Question{Me: w.rank, Op: o, Waited: waited, Reports: reports}
		v := judge.Judge(q)
		now := w.Record.Find(o.Message, o.Number)
		if v != nil && (now == nil || now.IsOpen()) && w.ended() == nil {
			w.say(v, q.First(v) == w.rank)
		}
	})
}

// over implements record.Watch.Over: an operation has ended after a long wait. Which rank called it late?
func (w *Watchdog) over(o record.Operation) {
	waited := time.Duration(o.Ended - max(o.Started, o.Enqueued))
	if o.State == record.Failed {
		return
	}
	w.begin(func(reports []*judge.Report) {
		q := &judge.Question{Me: w.rank, Op: o, Waited: waited, Reports: reports}
		v := judge.Late(q, min(waited/2, w.After))
		w.say(v, strings.HasSuffix(w.logged, opKey(o.Collective, o.Number))) // it has logged the wait
	})
}

// window implements record.Watch.Window.
func (w *Watchdog) window(part float64) {
	if part < slowFrom || w.rank%(w.size/mostAsked+1) != 0 {
		return
	}
	w.begin(func(reports []*judge.Report) {
		v := judge.Slow(w.rank, reports)
		w.say(v, v != nil && (&judge.Question{Me: w.rank, Reports: reports}).First(v) == w.rank)
	})
}

// opKey ends the keys of verdicts on an operation.
func opKey(operation string, number uint64) string { return fmt.Sprintf(" %s %d", operation, number) }

// say records a verdict, and logs it if this rank is to tell the job and has not said it. The case is open.
func (w *Watchdog) say(v *fault.Verdict, tell bool) {
	if v == nil {
		return
	}
	old := w.Record.Verdict()
	if old != nil && v.Kind == fault.VerdictAborted && old.Kind != v.Kind && !old.Vague() &&
		old.Operation == v.Operation && old.Number == v.Number {
		return // the end of a rank is a consequence of what was found before
	}
	v.Found = record.Now()
	w.Record.Judged(v)
	key := fmt.Sprint(v.Kind, v.Rank) + opKey(v.Operation, v.Number)
	if !tell || w.logged == key {
		return
	}
	w.logged = key
	attrs := []any{"verdict", string(v.Kind), "rank", v.Rank, "by", w.rank, "operation", v.Operation, "number", v.Number,
		"for", v.For, "why", v.String()}
	if w.Group.Name != "" {
		attrs = append(attrs, "communicator", w.Group.Name)
	}
	slog.Warn("an operation waits: the ranks have compared their records", attrs...)
}

// Explain returns the verdict on an operation that fails with err, nil if there is none. The engine calls it. It does
// not wait: the verdict on an operation whose deadline has passed was found at half of that time. That verdict says
// whom err blames.
func (w *Watchdog) Explain(err *fault.Error) *fault.Verdict {
	switch {
	case errors.Is(err.Err, fault.ErrPeerDead) && err.Peer >= 0:
		return w.Group.Dead(err.Peer)
	case errors.Is(err.Err, fault.ErrTimeout):
		v := w.Record.VerdictOn(isMessage(err), err.Seq)
		w.blame(err, v)
		return v
	case errors.Is(err.Err, fault.ErrMismatch):
		return w.mismatch(err)
	}
	return nil
}

// isMessage reports whether err is of a send or receive. These have numbers apart from the numbers of collectives.
func isMessage(err *fault.Error) bool {
	return err.Op == collective.Send.String() || err.Op == collective.Recv.String()
}

// ExplainLate is Explain across hosts, where a rank that another one waits for may wait itself, with the same deadline.
// If the ranks have found that a third one is dead or stopped, or has not called the operation, err blames it instead,
// and also if the communicator ends meanwhile because of a third one.
func (w *Watchdog) ExplainLate(err *fault.Error) *fault.Verdict {
	v := w.Explain(err)
	if !errors.Is(err.Err, fault.ErrTimeout) {
		return v
	}
	if v == nil {
		v = w.late(err)
	}
	if end := fault.Of(w.Group.Status.Err()); v == nil && end != nil && end.Peer >= 0 && end.Peer != w.rank {
		err.Err, err.Peer = end.Err, end.Peer
		return end.Verdict
	}
	w.blame(err, v)
	return v
}

// blame makes err, of a wait that has timed out, blame the rank that v does, if that rank is another one: the peer that
// an engine has waited for may wait itself, and survivors must agree on whom to leave out.
func (w *Watchdog) blame(err *fault.Error, v *fault.Verdict) {
	if v == nil || v.Rank == w.rank || slices.Contains(v.Blamed(), err.Peer) {
		return
	}
	switch v.Kind {
	case fault.VerdictDead, fault.VerdictStopped, fault.VerdictMissing:
		err.Err, err.Peer = fmt.Errorf("%w; the ranks wait for rank %d", err.Err, v.Rank), v.Rank
	}
}

const noGoodbye = "its connection has ended without a goodbye"

// Verdict implements membership.Config.Verdict.
func Verdict(dead bool, me, rank int, at membership.Process) (v *fault.Verdict) {
	r := &judge.Report{Rank: rank, Host: at.Host, PID: at.PID}
	if dead {
		r.Dead = noGoodbye
		v = judge.Died(r, []int{rank})
	} else {
		r.State = "T"
		reports := make([]*judge.Report, max(me, rank)+1)
		reports[rank] = r
		v = judge.Judge(&judge.Question{Me: me, Reports: reports})
	}
	v.By, v.Found = me, record.Now()
	return v
}
