package observe

import (
	"cmp"
	"io"
	"os"
	"slices"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/printable"
	"github.com/goccl/goccl/watch/judge"
)

// Source returns the ranks that it sees, and notes about processes and files that it cannot read.
type Source interface {
	Ranks() (found []Found, notes []string)
}

// Found is a rank with the id, name and size of its communicator.
type Found struct {
	ID          string
	Name        string
	Size, Nodes int
	Rank        *Rank
}

const damaged = "the records of a process are damaged, and are not shown"

// mostRanks is the size of the largest communicator.
const mostRanks = 1 << 16

// valid reports whether a rank can be shown, and makes its texts safe for terminals. Sources show what other users'
// processes and other hosts say.
func (f *Found) valid() bool {
	r := f.Rank
	if r == nil || r.Record == nil || f.Size < 1 || f.Size > mostRanks || r.Rank < 0 || r.Rank >= f.Size {
		return false
	}
	r.Record.Clean()
	printable.Strings(&f.ID, &f.Name, &r.Host, &r.Source, &r.State)
	for i := range r.Sums {
		printable.Strings(&r.Sums[i].Collective, &r.Sums[i].Algorithm, &r.Sums[i].Protocol)
	}
	return true
}

// Watcher looks at its sources again and again.
type Watcher struct {
	Sources []Source
	// Stall is how long an operation may take before it counts as held up.
	Stall time.Duration
}

// Close closes the sources that can be closed.
func (w *Watcher) Close() error {
	for _, s := range w.Sources {
		if c, ok := s.(io.Closer); ok {
			_ = c.Close()
		}
	}
	return nil
}

// Look takes a snapshot and judges it.
func (w *Watcher) Look() *Snapshot {
	s := &Snapshot{Communicators: []*Communicator{}, Verdicts: []*fault.Verdict{}}
	s.Host, _ = os.Hostname()
	type key struct {
		id   string
		size int
	}
	byID := map[key]*Communicator{}
	for _, source := range w.Sources {
		found, notes := source.Ranks()
		for _, n := range notes {
			s.Notes = append(s.Notes, printable.Line(n))
		}
		for _, f := range found {
			if !f.valid() {
				s.Notes = append(s.Notes, damaged)
				continue
			}
			k := key{f.ID, f.Size}
			c := byID[k]
			if c == nil {
				c = &Communicator{ID: f.ID, Name: f.Name, Size: f.Size, Nodes: f.Nodes}
				byID[k] = c
				s.Communicators = append(s.Communicators, c)
			}
			c.Ranks = append(c.Ranks, f.Rank)
		}
	}
	s.Time = time.Now()
	for _, c := range s.Communicators {
		c.complete()
	}
	for i, reports := range s.reports() {
		s.Communicators[i].lateness(reports)
	}
	slices.SortFunc(s.Communicators, func(a, b *Communicator) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	s.Verdicts = s.verdicts(w.Stall)
	return s
}

// complete sorts the ranks, and finds those that are not there.
func (c *Communicator) complete() {
	slices.SortStableFunc(c.Ranks, func(a, b *Rank) int { return cmp.Compare(a.Rank, b.Rank) })
	c.Unseen = nil
	for _, r := range c.Ranks {
		r.complete()
	}
	at := 0
	for r := range c.Size {
		for at < len(c.Ranks) && c.Ranks[at].Rank < r {
			at++
		}
		if at == len(c.Ranks) || c.Ranks[at].Rank != r {
			c.Unseen = append(c.Unseen, r)
		}
	}
}

// lateness sets how late the ranks call.
func (c *Communicator) lateness(reports []*judge.Report) {
	arrivals, _ := judge.Arrivals(reports)
	for _, r := range c.Ranks {
		a := arrivals[r.Rank]
		r.LateMs, r.BehindMs = a.Late.Seconds()*1e3, a.Behind.Seconds()*1e3
	}
}
