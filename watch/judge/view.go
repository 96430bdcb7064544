package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/record"
)

// View is a communicator as an observer sees it that is none of its ranks. The records of ranks that are dead or
// stopped may be there.
type View struct {
	ID      string
	Reports []*Report     // by rank; nil: it is not seen
	Known   []*Report     // of ranks of other communicators
	Stall   time.Duration // an operation that takes longer is held up
	Gone    bool          // ranks that are not seen must have ended
}

// held is an operation of a rank that is held up.
type held struct {
	r      *Report
	o      *record.Operation
	waited time.Duration
}

// Judge returns why the communicator does not go on, or which rank slows it down; nil: neither.
//
//  1. The rank asks that waits in the earliest collective; if that has no clear answer, those that wait in messages.
//  2. What the ranks' own library has said replaces an answer that is vague: it knows of ranks that are not seen, and
//     of the GPU.
//  3. If nobody waits, ranks are named that have died, that are stopped in an operation, or whose library has failed.
//  4. If all go on, a rank that is slow.
func (v *View) Judge() *fault.Verdict {
	all := v.held()
	var found *fault.Verdict
	for i := range all {
		if a := v.ask(&all[i]); a != nil && (found == nil || found.Vague() && !a.Vague()) {
			found = a
		}
		if found != nil && !found.Vague() {
			break
		}
	}
	if len(all) > 0 && (found == nil || found.Vague()) {
		if said := said(all); said != nil {
			found = said
		}
	}
	if found == nil {
		found = v.ended(len(all) == 0)
	}
	if found == nil && len(all) == 0 {
		found = v.slow()
	}
	if found != nil {
		found.Communicator, found.By = v.ID, -1
	}
	return found
}

// held lists the operations that are held up in ranks that can wait: of the collectives the earliest, then messages.
func (v *View) held() (all []held) {
	for _, r := range v.Reports {
		if !r.answered() || r.Dead != "" || r.State != "" || r.Record.State == record.CommunicatorFailed {
			continue
		}
		for _, message := range []bool{false, true} {
			if o := r.Record.Open(message); o != nil {
				if waited := time.Duration(r.Time - o.Enqueued); waited > v.Stall {
					all = append(all, held{r, o, waited})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b held) int {
		switch {
		case a.o.Message != b.o.Message:
			return map[bool]int{false: -1, true: 1}[a.o.Message]
		case !a.o.Message && a.o.Number != b.o.Number:
			return cmp.Compare(a.o.Number, b.o.Number)
		}
		return cmp.Compare(b.waited, a.waited)
	})
	collectives := 0
	return slices.DeleteFunc(all, func(h held) bool {
		if !h.o.Message {
			collectives++
		}
		return !h.o.Message && collectives > 1
	})
}

func (v *View) ask(h *held) *fault.Verdict {
	q := v.question()
	q.Me, q.Op, q.Waited = h.r.Rank, *h.o, h.waited
	return Judge(&q)
}

// question asks for nobody.
func (v *View) question() Question {
	q := Question{Me: -1, Reports: v.Reports, Known: v.Known, Gone: v.Gone}
	for i, r := range v.Reports {
		if r == nil {
			q.Unseen = append(q.Unseen, i)
		}
	}
	return q
}

// said is what the library of a rank that waits has found out about the operation.
func said(all []held) *fault.Verdict {
	for _, h := range all {
		if s := h.r.Record.Verdict; s != nil && s.Rank >= 0 && s.Number == h.o.Number && s.Operation == h.o.Collective {
			own := *s
			own.For, own.Waiting = h.waited, nil
			for _, x := range all {
				own.Waiting = append(own.Waiting, x.r.Rank)
			}
			return &own
		}
	}
	return nil
}

// ended is about ranks that are at their end, and if nobody waits about those that are stopped in an operation.
func (v *View) ended(idle bool) *fault.Verdict {
	q := v.question()
	if found := cmp.Or(q.dead(), q.aborted()); found != nil || !idle {
		return found
	}
	for i, r := range v.Reports {
		if r != nil && (!r.answered() || r.Record.Open(false) == nil && r.Record.Open(true) == nil) {
			q.Reports = slices.Clone(q.Reports)
			q.Reports[i] = nil
		}
	}
	return q.stopped()
}

func (q *Question) unseen() *fault.Verdict {
	switch {
	case len(q.Unseen) == 0:
		return nil
	case q.Gone:
		return q.blame(fault.VerdictDead, q.Unseen,
			"all ranks of this communicator are on one host, and no process of it has "+plural(q.Unseen, "", "")+"any more",
			"see their logs and dmesg (out of memory?), then start the job again or shrink it")
	}
	return q.blame(fault.VerdictUnseen, q.Unseen, plural(q.Unseen, "is not seen here, and may hold the others up",
		"are not seen here, and may hold the others up"), "run goccl watch --http on their hosts and give their addresses "+
		"by --join, or set NCCL_PROFILER_PLUGIN for them")
}
