package observe

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/judge"
	"github.com/goccl/goccl/watch/record"
)

// verdicts judges each communicator, the gravest first. An operation that takes longer than stall is held up.
func (s *Snapshot) verdicts(stall time.Duration) []*fault.Verdict {
	reports := s.reports()
	all := []*fault.Verdict{}
	for i, c := range s.Communicators {
		v := c.view(reports[i])
		v.Stall = stall
		for k, others := range reports {
			if k != i {
				v.Known = append(v.Known, others...)
			}
		}
		found := v.Judge()
		if found == nil {
			continue
		}
		// A circle is one, although each of its communicators waits, mostly for more than one rank.
		same := slices.IndexFunc(all, func(o *fault.Verdict) bool {
			return found.Kind == fault.VerdictDeadlock && o.Kind == found.Kind &&
				strings.Contains(o.What, "communicator "+judge.Title(v.ID, c.Name)+" ")
		})
		switch {
		case same < 0:
			all = append(all, found)
		case found.Communicator < all[same].Communicator:
			all[same] = found
		}
	}
	slices.SortStableFunc(all, func(a, b *fault.Verdict) int {
		return cmp.Compare(slices.Index(fault.VerdictKinds, a.Kind), slices.Index(fault.VerdictKinds, b.Kind))
	})
	return all
}

// mostOthers bounds the other communicators of a process and device that the judge looks at.
const mostOthers = 256

// reports turns the ranks into reports, by communicator.
func (s *Snapshot) reports() [][]*judge.Report {
	type scope struct {
		host   string
		pid    int
		device string
	}
	all, others := make([][]*judge.Report, len(s.Communicators)), map[scope][]*record.Communicator{}
	of := func(r *Rank) scope { return scope{r.Host, r.PID, r.Record.Device} }
	for _, c := range s.Communicators {
		for _, r := range c.Ranks {
			others[of(r)] = append(others[of(r)], r.Record)
		}
	}
	for i, c := range s.Communicators {
		for _, r := range c.Ranks {
			x := &judge.Report{Rank: r.Rank, Time: r.time(s.Time), Host: r.Host, PID: r.PID, Device: r.Record.Device,
				Record: r.Record}
			for _, o := range others[of(r)] {
				if o != r.Record && len(x.Others) < mostOthers {
					x.Others = append(x.Others, o)
				}
			}
			switch r.State {
			case Dead:
				x.Dead = "its process has ended and had not closed the communicator"
			case Stopped:
				x.State = "T"
			}
			all[i] = append(all[i], x)
		}
	}
	return all
}

// view is the communicator as the judge wants it. All ranks of a communicator of one node are on this host, so those
// that are not seen must have ended.
func (c *Communicator) view(reports []*judge.Report) *judge.View {
	v := &judge.View{ID: c.ID, Reports: make([]*judge.Report, c.Size), Gone: c.Nodes == 1}
	for _, r := range reports {
		if r.Rank >= 0 && r.Rank < c.Size {
			v.Reports[r.Rank] = r
		}
	}
	return v
}
