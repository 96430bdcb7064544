package goccl

import (
	"sync"
	"time"

	"github.com/goccl/goccl/watch/judge"
)

// heard is what the ranks of this process were told by ranks of all their communicators. They tell it to others, so
// that a circle of waits is found in which no rank has a communicator with all others.
var heard = gossip{rumours: map[string]map[string]rumour{}}

type gossip struct {
	mu      sync.Mutex
	rumours map[string]map[string]rumour // by the rank that heard it, and by the one that said it (judge.Report.Scope)
}

type rumour struct {
	report *judge.Report
	at     time.Time
}

// rumours are forgotten after rumourFor; a rank knows at most mostRumours.
const (
	rumourFor   = 30 * time.Second
	mostRumours = 64
)

// add stores what a rank, me, was told by another one, and what that one had heard.
func (g *gossip) add(me, told *judge.Report) {
	g.mu.Lock()
	defer g.mu.Unlock()
	mine := g.rumours[me.Scope()]
	if mine == nil {
		mine = map[string]rumour{}
		g.rumours[me.Scope()] = mine
	}
	for _, r := range append([]*judge.Report{told}, told.Known...) {
		if r == nil || r.Record == nil || r.Scope() == me.Scope() {
			continue
		}
		old, known := mine[r.Scope()]
		if !known && len(mine) >= mostRumours || known && old.report.Time >= r.Time {
			continue
		}
		short := *r
		short.Known, short.States, short.Links = nil, nil, nil
		mine[r.Scope()] = rumour{&short, time.Now()}
	}
}

// of lists what a rank has heard.
func (g *gossip) of(me *judge.Report) (list []*judge.Report) {
	g.mu.Lock()
	defer g.mu.Unlock()
	mine := g.rumours[me.Scope()]
	for scope, r := range mine {
		if time.Since(r.at) > rumourFor {
			delete(mine, scope)
			continue
		}
		list = append(list, r.report)
	}
	if len(mine) == 0 {
		delete(g.rumours, me.Scope())
	}
	return list
}
