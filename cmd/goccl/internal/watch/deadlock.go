package watch

import (
	"fmt"
	"slices"
	"strings"
)

// wait is a rank that others need in at, and that is held up in another communicator.
type wait struct {
	missing member // the rank, in the communicator where it is missing
	held    member // the same process, in the communicator that holds it up
	at      *Operation
}

// elsewhere returns where the process of a rank is held up, if that is in another communicator.
func (j *judge) elsewhere(c *Communicator, r *Rank) *member {
	for i := range j.held {
		m := &j.held[i]
		if m.c != c && m.r.PID != 0 && m.r.PID == r.PID && m.r.Host == r.Host {
			return m
		}
	}
	return nil
}

// deadlocks looks for circles: communicator A lacks a rank that is held up in B, which lacks one that is held up in A.
// A wait that is in no circle has its cause in the other communicator, which has a verdict of its own.
func (j *judge) deadlocks() {
	done := map[*Communicator]bool{}
	for i := range j.waits {
		circle := j.circle([]wait{j.waits[i]})
		if circle == nil || done[circle[0].missing.c] {
			continue
		}
		var parts []string
		var ranks []*Rank
		for _, w := range circle {
			done[w.missing.c] = true
			ranks = append(ranks, w.missing.r)
			parts = append(parts, fmt.Sprintf("communicator %s waits in %s for rank %d (process %d), which waits in %s of "+
				"communicator %s", w.missing.c.ID, title(w.at), w.missing.r.Rank, w.missing.r.PID, title(w.held.r.Current),
				w.held.c.ID))
		}
		j.add(KindDeadlock, circle[0].missing.c, ranks[:1], nil, "call the operations of different communicators in the "+
			"same order on all ranks, or on streams that do not wait for each other", "%s", strings.Join(parts, "; "))
	}
}

// circle extends a path of waits until it comes back to its first communicator; nil if it does not.
func (j *judge) circle(path []wait) []wait {
	last := path[len(path)-1]
	if last.held.c == path[0].missing.c {
		return path
	}
	for _, w := range j.waits {
		been := slices.ContainsFunc(path, func(p wait) bool { return p.missing.c == w.missing.c })
		if w.missing.c == last.held.c && !been {
			if found := j.circle(append(slices.Clone(path), w)); found != nil {
				return found
			}
		}
	}
	return nil
}
