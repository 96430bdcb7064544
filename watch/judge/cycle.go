package judge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/record"
)

// edge says that a scope waits, in an operation of a communicator, for another scope.
type edge struct {
	to       string
	comm     *record.Communicator // as the waiting scope has it
	op       *record.Operation
	from, at int // ranks in comm
	// The wait lasts from since to until at least, as both ranks say.
	since, until int64
}

// member is a communicator as a scope has it.
type member struct {
	scope string
	comm  *record.Communicator
	r     *Report
}

// newest lists all reports, those that others have passed on, too: a scope's latest first. What somebody heard a while
// ago must not hide what the scope itself says now.
func (q *Question) newest() (list []*Report) {
	var add func(r *Report)
	add = func(r *Report) {
		if !r.answered() {
			return
		}
		list = append(list, r)
		for _, k := range r.Known {
			add(k)
		}
	}
	for _, r := range slices.Concat(q.Reports, q.Known) {
		add(r)
	}
	slices.SortStableFunc(list, func(a, b *Report) int { return cmp.Compare(b.Time, a.Time) })
	return list
}

// graph collects who waits for whom, over all communicators of which there are records. A scope waits for another if an
// operation of it runs and the other has not begun the same.
func (q *Question) graph() map[string][]edge {
	members := map[string]map[int]member{} // by communicator and rank
	twice := map[string]bool{}             // scopes with two ranks of a communicator do not run one thing after another
	for _, r := range q.newest() {
		for _, c := range append([]*record.Communicator{r.Record}, r.Others...) {
			if c == nil {
				continue
			}
			if members[c.ID] == nil {
				members[c.ID] = map[int]member{}
			}
			if _, ok := members[c.ID][c.Rank]; ok {
				continue
			}
			for _, m := range members[c.ID] {
				twice[m.scope] = twice[m.scope] || m.scope == r.Scope()
			}
			members[c.ID][c.Rank] = member{r.Scope(), c, r}
		}
	}
	graph := map[string][]edge{}
	for _, ranks := range members {
		for rank, m := range ranks {
			o := m.comm.Open(false)
			if o == nil || o.State == record.Enqueued && !m.r.sampled() || twice[m.scope] {
				continue
			}
			for at, p := range ranks {
				theirs := find(p.comm, false, o.Number)
				begun := called(p.comm, eager(m.comm, o.Number), o.Number) &&
					(theirs == nil || theirs.State != record.Enqueued)
				if at != rank && !begun && !twice[p.scope] {
					graph[m.scope] = append(graph[m.scope], edge{p.scope, m.comm, o, rank, at, max(o.Started, o.Enqueued),
						min(m.r.Time, p.r.Time)})
				}
			}
		}
	}
	return graph
}

// several reports whether the waits are in several communicators.
func several(path []edge) bool {
	return slices.ContainsFunc(path, func(e edge) bool { return e.comm.ID != path[0].comm.ID })
}

// clocksWithin is how far the clocks of two ranks may differ.
const clocksWithin = 50 * time.Millisecond

// atOnce reports whether all waits lasted at one moment. What a rank heard of another one a while ago may be over, and
// a circle of waits that followed each other is none.
func atOnce(path []edge) bool {
	since, until := path[0].since, path[0].until
	for _, e := range path {
		since, until = max(since, e.since), min(until, e.until)
	}
	return since+int64(clocksWithin) < until
}

// cycle finds a circle of waits through this rank with two communicators or more.
func (q *Question) cycle() *fault.Verdict {
	me := q.Reports[q.Me]
	if !me.answered() {
		return nil
	}
	graph, start := q.graph(), me.Scope()
	visited := map[string]bool{}
	var walk func(at string, path []edge) []edge
	walk = func(at string, path []edge) []edge {
		for _, e := range graph[at] {
			next := append(path[:len(path):len(path)], e)
			if e.to == start {
				if several(next) && atOnce(next) {
					return next
				}
				continue
			}
			if !visited[e.to] {
				visited[e.to] = true
				if found := walk(e.to, next); found != nil {
					return found
				}
			}
		}
		return nil
	}
	path := walk(start, nil)
	if path == nil {
		return nil
	}
	// All ranks tell a circle from the same place on.
	first := slices.Index(path, slices.MinFunc(path, func(e, f edge) int {
		return cmp.Or(cmp.Compare(e.comm.ID, f.comm.ID), cmp.Compare(e.from, f.from))
	}))
	path = slices.Concat(path[first:], path[:first])
	steps := make([]string, len(path))
	ranks := []int{}
	for i, e := range path {
		steps[i] = fmt.Sprintf("rank %d of communicator %s waits in %s (#%d) for rank %d", e.from, title(e.comm),
			e.op.Name(), e.op.Number, e.at)
		if e.comm.ID == me.Record.ID {
			ranks = append(ranks, e.at)
		}
	}
	what := "ranks use communicators in different orders and wait for each other: " + strings.Join(steps, "; ")
	return q.blame(fault.VerdictDeadlock, ranks, what,
		"call the operations of several communicators in the same order on all ranks, or put "+
			"them into one group (ncclGroupStart, goccl.Submit)")
}
