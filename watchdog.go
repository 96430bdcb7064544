package goccl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/record"
	"github.com/goccl/goccl/record/judge"
)

// watchdog finds out why an operation waits.
//
//  1. The recorder's watch calls long for an operation that waits. Every rank that waits does what follows by itself.
//  2. The rank asks its peers for their records, over the bootstrap. A goroutine of each peer answers, whatever its
//     streams and callers do.
//  3. It waits for the answers, at most answerLimit. Of a rank of this host that is silent it reads the state in /proc;
//     of one on another host, a neighbour that answers reads it.
//  4. judge.Judge names the reason. The verdict goes to the log, the records, and the error if the operation fails.
type watchdog struct {
	c *Comm

	mu      sync.Mutex // guards the fields below
	closed  bool
	busy    bool // a case is open
	asked   uint64
	answers map[int]*judge.Report // to the question of number asked
	more    chan struct{}         // gets a value at each answer
	deaths  map[int]string
	cases   sync.WaitGroup

	said atomic.Value // string: kind, rank and operation of the latest verdict that was logged
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
	// Operations in an answer, of the communicator in question and of each other one.
	mostOperations, mostOthers = 128, 8
	// slowFrom is the part of the time in operations from which it is worth while to look for a slow rank.
	slowFrom = 0.3
)

func newWatchdog(c *Comm) *watchdog {
	w := &watchdog{c: c, answers: map[int]*judge.Report{}, more: make(chan struct{}, 1), deaths: map[int]string{}}
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
			}
			w.mu.Unlock()
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
			w.answers[peer] = n.Report
			select {
			case w.more <- struct{}{}:
			default:
			}
		}
		w.mu.Unlock()
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

// report is what this rank tells about itself.
func (w *watchdog) report() *judge.Report {
	c := w.c
	who := c.roster.Load()
	o := who.ranks[c.rank]
	r := &judge.Report{Rank: c.rank, Time: record.Now(), Host: o.host, PID: o.pid, Device: c.dev.ID().String(),
		Record: c.record.Snapshot(mostOperations), States: map[int]string{}}
	for _, x := range record.Recorders() {
		if other := x.Snapshot(mostOthers); other != nil && other.ID != r.Record.Identity() && other.Device == r.Device &&
			len(r.Others) < mostAsked {
			r.Others = append(r.Others, other)
		}
	}
	hosts := c.boot.Hosts()
	for p, at := range who.ranks {
		if hosts[p] == hosts[c.rank] && p != c.rank {
			r.States[p] = at.state()
		}
	}
	if e, ok := c.engine.(interface{ NetworkLinks() []judge.Link }); ok {
		r.Links = e.NetworkLinks()
	}
	r.Known = heard.of(r)
	return r
}

// state is the state of the rank's process in /proc, as seen from this host; Z if it has ended.
func (o origin) state() string {
	state, born := record.Status(o.pid)
	switch {
	case state == 0 || born != o.born && o.born != 0:
		if _, err := os.Stat("/proc/self/stat"); err != nil || o.pid == 0 {
			return ""
		}
		return "Z"
	}
	return string(state)
}

// ask collects the reports of the ranks.
func (w *watchdog) ask() []*judge.Report {
	c := w.c
	reports := make([]*judge.Report, c.size)
	reports[c.rank] = w.report()
	w.mu.Lock()
	w.asked++
	number := w.asked
	clear(w.answers)
	w.mu.Unlock()
	wanted := 0
	for _, p := range w.chosen(reports[c.rank]) {
		o := c.roster.Load().ranks[p]
		reports[p] = &judge.Report{Rank: p, Host: o.host, PID: o.pid}
		wanted++
		go w.send(p, note{Ask: number})
	}
	deadline := time.NewTimer(answerLimit)
	defer deadline.Stop()
	for waiting := true; waiting; {
		w.mu.Lock()
		have := len(w.answers) + len(w.deaths)
		w.mu.Unlock()
		if have >= wanted {
			break
		}
		select {
		case <-w.more:
		case <-deadline.C:
			waiting = false
		case <-c.status.ctx.Done():
			waiting = false
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, r := range w.answers {
		if reports[p] != nil {
			reports[p] = r
			heard.add(reports[c.rank], r)
		}
	}
	hosts := c.boot.Hosts()
	for p, r := range reports {
		if r == nil || p == c.rank {
			continue
		}
		r.Dead = w.deaths[p]
		if r.Record != nil || r.Dead != "" {
			continue
		}
		if hosts[p] == hosts[c.rank] {
			r.State = c.roster.Load().ranks[p].state()
			continue
		}
		for q, other := range reports {
			if other != nil && hosts[q] == hosts[p] && other.States[p] != "" {
				r.State = other.States[p]
			}
		}
	}
	return reports
}

// chosen lists the peers to ask: all, or in a large communicator those that the engine waits for and some others.
func (w *watchdog) chosen(me *judge.Report) (list []int) {
	seen := map[int]bool{w.c.rank: true}
	add := func(p int) {
		if p >= 0 && p < w.c.size && !seen[p] && len(list) < mostAsked {
			seen[p] = true
			list = append(list, p)
		}
	}
	if me.Record != nil {
		for _, x := range me.Record.Waits {
			add(x.Peer)
		}
		for _, o := range me.Record.Operations {
			if o.Ended == 0 {
				add(o.Peer)
			}
		}
	}
	step := max(1, w.c.size/mostAsked)
	for i := 1; i < w.c.size; i += step {
		add((w.c.rank + i) % w.c.size)
	}
	return list
}

// explain judges an operation that an engine has found to differ from the peers', on the caller's goroutine. It accepts
// a nil w.
func (w *watchdog) explain(message bool, number uint64) *Verdict {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	if w.closed || w.busy {
		w.mu.Unlock()
		return nil
	}
	w.busy = true
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		w.busy = false
		w.mu.Unlock()
	}()
	o := w.c.record.Find(message, number)
	if o == nil {
		return nil
	}
	v := judge.Judge(&judge.Question{Me: w.c.rank, Op: *o, Reports: w.ask()})
	w.say(v)
	return v
}

// begin runs a case on a goroutine of its own. It returns false if one is open, or w is closed.
func (w *watchdog) begin(f func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed || w.busy || w.c.status.err() != nil {
		return false
	}
	w.busy = true
	w.cases.Go(func() {
		f()
		w.mu.Lock()
		w.busy = false
		w.mu.Unlock()
	})
	return true
}

// long implements record.Watch.Long.
func (w *watchdog) long(o record.Operation, waited time.Duration) bool {
	return w.begin(func() {
		w.say(judge.Judge(&judge.Question{Me: w.c.rank, Op: o, Waited: waited, Reports: w.ask()}))
	})
}

// over implements record.Watch.Over: an operation has ended after a long wait. Which rank called it late?
func (w *watchdog) over(o record.Operation) {
	waited := time.Duration(o.Ended - max(o.Started, o.Enqueued))
	if o.State == record.Failed {
		return
	}
	w.begin(func() {
		q := &judge.Question{Me: w.c.rank, Op: o, Waited: waited, Reports: w.ask()}
		w.say(judge.Late(q, min(waited/2, w.c.cfg.settings.VerdictAfter)))
	})
}

// window implements record.Watch.Window.
func (w *watchdog) window(part float64) {
	if part < slowFrom || w.c.rank%(w.c.size/mostAsked+1) != 0 {
		return
	}
	w.begin(func() { w.say(judge.Slow(w.c.rank, w.ask())) })
}

// say records and logs a verdict, once.
func (w *watchdog) say(v *collective.Verdict) {
	if v == nil {
		return
	}
	v.Found = record.Now()
	w.c.record.Judged(v)
	text := v.String()
	key := fmt.Sprint(v.Kind, v.Rank, v.Operation, v.Number)
	if w.said.Swap(key) == key {
		return // it still waits for the same reason
	}
	attrs := []any{"verdict", string(v.Kind), "rank", v.Rank, "by", w.c.rank, "operation", v.Operation, "number", v.Number,
		"for", v.For, "why", text}
	if w.c.cfg.Name != "" {
		attrs = append(attrs, "communicator", w.c.cfg.Name)
	}
	slog.Warn("an operation waits: the ranks have compared their records", attrs...)
}

// dead is the verdict on a rank whose death the bootstrap has reported.
func (c *Comm) dead(rank int) *Verdict {
	r := &judge.Report{Rank: rank, Dead: "its connection has ended without a goodbye"}
	who := c.roster.Load()
	if who != nil && rank < len(who.ranks) {
		r.Host, r.PID = who.ranks[rank].host, who.ranks[rank].pid
	}
	v := judge.Died(r, []int{rank})
	v.By, v.Found = c.rank, record.Now()
	if who != nil {
		v.Communicator = fmt.Sprintf("%016x", who.id)
	}
	return v
}
