package watchdog

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/judge"
	"github.com/goccl/goccl/watch/record"
)

// report is what this rank tells about itself.
func (w *Watchdog) report() *judge.Report {
	who := w.Group.Members()
	o := who.Ranks[w.rank]
	r := &judge.Report{Rank: w.rank, Time: record.Now(), Host: o.Host, PID: o.PID, Device: w.Device.ID().String(),
		Record: w.Record.Snapshot(mostOperations), States: map[int]string{}}
	r.Next = w.next(r.Record)
	for _, x := range record.Recorders() {
		if other := x.Snapshot(mostOthers); other != nil && other.ID != r.Record.Identity() && other.Device == r.Device &&
			len(r.Others) < mostAsked {
			r.Others = append(r.Others, other)
		}
	}
	hosts := w.boot.Hosts()
	for p, at := range who.Ranks {
		if hosts[p] == hosts[w.rank] && p != w.rank {
			r.States[p] = at.State()
		}
	}
	if e, ok := w.engine.(interface{ NetworkLinks() []judge.Link }); ok {
		r.Links = e.NetworkLinks()
	}
	r.Known = relayed.of(r)
	if cause := cmp.Or(w.Group.Status.Err(), w.ended()); cause != nil {
		r.Ended = cause.Error()
		if e := fault.Of(cause); e != nil {
			r.Cause = e.Verdict
		}
	}
	return r
}

// ended is the engine's failure or abort. An engine whose Err looks for a failure asks this watchdog for the verdict on
// it, by ExplainLate; it has Ended, which does not look.
func (w *Watchdog) ended() error {
	if e, ok := w.engine.(interface{ Ended() error }); ok {
		return e.Ended()
	}
	return w.engine.Err()
}

// next reports whether the oldest collective of a record waits for no other work on its stream.
func (w *Watchdog) next(r *record.Communicator) bool {
	o := r.Open(false)
	streams, ok := w.Device.(interface {
		Running(stream uintptr) (name string, ok bool)
	})
	if o == nil || !ok {
		return false
	}
	name, ok := streams.Running(uintptr(o.Stream))
	now := w.Record.Find(false, o.Number) // if it has started meanwhile, the work that runs is behind it
	return ok && (name == "" || name == o.Collective) || now == nil || now.State != record.Enqueued
}

// Reports asks every rank for its records, and waits for the answers as long as a case does. It returns nil if w is
// closed.
func (w *Watchdog) Reports() []*judge.Report {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.cases.Add(1)
	w.mu.Unlock()
	defer w.cases.Done()
	if !w.observes.Load() || !w.take() {
		return []*judge.Report{w.report()}
	}
	defer w.give()
	reports, _ := w.ask(w.size)
	return reports
}

// ask collects the reports of this rank and of at most so many others. ok is false if the communicator ends
// meanwhile: then a peer's silence says nothing about it.
func (w *Watchdog) ask(most int) (reports []*judge.Report, ok bool) {
	me := w.report()
	reports = make([]*judge.Report, w.size)
	reports[w.rank] = me
	w.mu.Lock()
	w.asked++
	number := w.asked
	clear(w.answers)
	w.mu.Unlock()
	for _, p := range w.chosen(me, most) {
		o := w.Group.Members().Ranks[p]
		reports[p] = &judge.Report{Rank: p, Host: o.Host, PID: o.PID}
		go w.send(p, note{Ask: number})
	}
	for begun := time.Now(); ; {
		open := w.collect(reports)
		if len(open) == 0 {
			break
		}
		left := w.patience(open, reports) - time.Since(begun)
		if left <= 0 {
			break
		}
		select {
		case <-w.more:
		case <-time.After(min(left, answerLimit)):
		case <-w.Group.Status.Context().Done():
			return reports, false
		}
	}
	for _, r := range reports {
		if r != nil && r != me && r.Record != nil {
			relayed.add(me, r)
		}
	}
	return reports, true
}

// patience is how long ask waits for the answers of ranks. One of a busy host may answer late, one that is stopped
// cannot, and the notice of a death follows.
func (w *Watchdog) patience(open []int, reports []*judge.Report) time.Duration {
	all := func(states string) bool {
		return !slices.ContainsFunc(open, func(p int) bool { return !strings.ContainsAny(reports[p].State, states) })
	}
	switch t := w.OpTimeout; {
	case all("Tt"):
		return stoppedLimit
	case all("TtZ"):
		return answerLimit
	case t > 0:
		return min(mostPatience, max(answerLimit, t/4))
	}
	return mostPatience
}

// collect stores answers, deaths and departures in the ranks' reports. It returns the ranks that may still answer.
func (w *Watchdog) collect(reports []*judge.Report) (open []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	hosts, me := w.boot.Hosts(), w.rank
	for p, r := range reports {
		if r != nil && p != me {
			r = cmp.Or(w.answers[p], r)
			reports[p], r.Dead, r.Left = r, w.deaths[p], w.left[p]
		}
	}
	for p, r := range reports {
		if r == nil || r.Record != nil || r.Dead != "" || r.Left {
			continue
		}
		open = append(open, p)
		if hosts[p] == hosts[me] {
			r.State = w.Group.Members().Ranks[p].State()
			continue
		}
		for q, other := range reports {
			if other != nil && hosts[q] == hosts[p] && other.States[p] != "" {
				r.State = other.States[p]
			}
		}
	}
	return open
}

// chosen lists the peers to ask: all, or in a large communicator those that the engine waits for and some others.
func (w *Watchdog) chosen(me *judge.Report, most int) (list []int) {
	seen := map[int]bool{w.rank: true}
	add := func(p int) {
		if p >= 0 && p < w.size && !seen[p] && len(list) < most {
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
	step := max(1, w.size/most)
	for i := 1; i < w.size; i += step {
		add((w.rank + i) % w.size)
	}
	return list
}
