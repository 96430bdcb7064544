package watch

import (
	"cmp"
	"os"
	"slices"
	"time"
)

// Source returns the ranks that it sees, and notes about what it cannot see.
type Source interface {
	Ranks() (found []Found, notes []string)
	Close() error
}

// Found is a rank, and what it knows of its communicator.
type Found struct {
	ID          string
	Name        string
	Size, Nodes int
	Rank        *Rank
}

func unixNow() int64 { return time.Now().UnixNano() }

// Watcher looks at its sources again and again.
type Watcher struct {
	Sources []Source
	// Stall is how long an operation may take before it counts as held up.
	Stall time.Duration
}

// Close closes the sources.
func (w *Watcher) Close() error {
	for _, s := range w.Sources {
		_ = s.Close()
	}
	return nil
}

// Look takes a snapshot and judges it.
func (w *Watcher) Look() *Snapshot {
	s := &Snapshot{Communicators: []*Communicator{}, Verdicts: []Verdict{}}
	s.Host, _ = os.Hostname()
	type key struct {
		id   string
		size int
	}
	byID := map[key]*Communicator{}
	for _, source := range w.Sources {
		found, notes := source.Ranks()
		s.Notes = append(s.Notes, notes...)
		for _, f := range found {
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
	slices.SortFunc(s.Communicators, func(a, b *Communicator) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	s.Verdicts = Judge(s, w.Stall)
	return s
}

// complete sorts the ranks, and finds those that are not there and how late they come.
func (c *Communicator) complete() {
	slices.SortStableFunc(c.Ranks, func(a, b *Rank) int { return cmp.Compare(a.Rank, b.Rank) })
	c.Unseen = nil
	at := 0
	for r := range c.Size {
		for at < len(c.Ranks) && c.Ranks[at].Rank < r {
			at++
		}
		if at == len(c.Ranks) || c.Ranks[at].Rank != r {
			c.Unseen = append(c.Unseen, r)
		}
	}
	c.lateness()
}

// lateness compares when the ranks of one host called the collectives that all of them remember.
func (c *Communicator) lateness() {
	type arrival struct {
		seen        int
		first, last int64
	}
	calls := map[uint64]*arrival{}
	for _, r := range c.Ranks {
		for i := range r.Recent {
			o := &r.Recent[i]
			if o.Message || r.Host != c.Ranks[0].Host {
				continue
			}
			a := calls[o.Call]
			if a == nil {
				a = &arrival{first: o.Enqueued, last: o.Enqueued}
				calls[o.Call] = a
			}
			a.seen++
			a.first, a.last = min(a.first, o.Enqueued), max(a.last, o.Enqueued)
		}
	}
	for _, r := range c.Ranks {
		n, late, behind := 0, 0.0, 0.0
		for i := range r.Recent {
			o := &r.Recent[i]
			if a := calls[o.Call]; !o.Message && a != nil && a.seen == len(c.Ranks) {
				n++
				late += float64(o.Enqueued-a.first) / 1e6
				behind += float64(a.last-o.Enqueued) / 1e6
			}
		}
		c.compared = n
		if n > 0 {
			r.LateMs, r.BehindMs = late/float64(n), behind/float64(n)
		}
	}
}
