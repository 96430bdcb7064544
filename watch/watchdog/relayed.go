package watchdog

import (
	"sync"
	"time"

	"github.com/goccl/goccl/watch/judge"
)

// relayed is shared by the watchdogs of this process. A rank passes the reports of one communicator on to the ranks
// of its others, so that a circle of waits is found in which no rank has a communicator with all others.
var relayed = relayedReports{by: map[string]map[string]relayedReport{}}

type relayedReports struct {
	mu sync.Mutex
	by map[string]map[string]relayedReport // by the rank that was told, and the one that told it (judge.Report.Scope)
}

type relayedReport struct {
	report *judge.Report
	at     time.Time
}

// Reports are forgotten after relayFor; a rank keeps at most mostRelayed.
const (
	relayFor    = 30 * time.Second
	mostRelayed = 64
)

// add stores what a rank, me, was told by another one, and the reports that this one relayed.
func (g *relayedReports) add(me, told *judge.Report) {
	g.mu.Lock()
	defer g.mu.Unlock()
	mine := g.by[me.Scope()]
	if mine == nil {
		mine = map[string]relayedReport{}
		g.by[me.Scope()] = mine
	}
	for _, r := range append([]*judge.Report{told}, told.Known...) {
		if r == nil || r.Record == nil || r.Scope() == me.Scope() {
			continue
		}
		old, known := mine[r.Scope()]
		if !known && len(mine) >= mostRelayed || known && old.report.Time >= r.Time {
			continue
		}
		short := *r
		short.Known, short.States, short.Links = nil, nil, nil
		mine[r.Scope()] = relayedReport{&short, time.Now()}
	}
}

// of lists the reports that a rank was told.
func (g *relayedReports) of(me *judge.Report) (list []*judge.Report) {
	g.mu.Lock()
	defer g.mu.Unlock()
	mine := g.by[me.Scope()]
	for scope, r := range mine {
		if time.Since(r.at) > relayFor {
			delete(mine, scope)
			continue
		}
		list = append(list, r.report)
	}
	if len(mine) == 0 {
		delete(g.by, me.Scope())
	}
	return list
}
