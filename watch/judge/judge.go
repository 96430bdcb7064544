package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/record"
)

// Question is an operation that waits, with the reports of the ranks. Judge answers it.
type Question struct {
	Me      int // the rank that asks
	Op      record.Operation
	Waited  time.Duration
	Reports []*Report // by rank; nil: the rank was not asked, or is not seen
	Known   []*Report // of ranks of other communicators, which nobody sent
	// Unseen lists ranks that an observer does not see; Gone says that they must have ended.
	Unseen []int
	Gone   bool
}

// Judge names the reason of a wait, nil if there is none yet. The first of these rules that applies decides: causes
// come before effects.
//
//  1. A rank is dead.
//  2. A rank has called another operation.
//  3. A rank has ended the communicator, or its process is stopped.
//  4. Ranks wait for each other in several communicators.
//  5. A rank has not called the operation.
//  6. A rank does not answer. It may only be slow to answer, so certain faults of other ranks come first.
//  7. A rank has called it, and earlier work on its stream runs.
//  8. A rank has left. It may have done its part before, so all other reasons come first.
//  9. Some ranks are not seen.
//  10. All ranks have called it: the network, the GPU or the host does not get on.
//
// A verdict is right or there is none: where the records do not tell, the rules do not apply.
func Judge(q *Question) *fault.Verdict {
	for _, rule := range []func() *fault.Verdict{q.dead, q.differs, q.aborted, q.stopped, q.cycle, q.missing,
		q.silent, q.busy, q.gone, q.unseen, q.stuck} {
		if v := rule(); v != nil {
			q.complete(v)
			return v
		}
	}
	return nil
}

// complete sets what follows from the question.
func (q *Question) complete(v *fault.Verdict) {
	v.For, v.Operation, v.Number, v.By = q.Waited, q.Op.Collective, q.Op.Number, q.Me
	if q.Me < 0 {
		return
	}
	if me := q.Reports[q.Me]; me.answered() {
		v.Communicator = me.Record.ID
	}
	blamed := v.Blamed()
	for i, r := range q.Reports {
		if !r.answered() || r.Dead != "" || slices.Contains(blamed, i) {
			continue
		}
		if o := q.theirs(r); i == q.Me || !q.Op.Message && o != nil && o.IsOpen() {
			v.Waiting = append(v.Waiting, i)
		}
	}
}

// First is the lowest rank that this one knows to have waited for about as long and that v does not blame: this one, if
// there is no lower one. It tells the job.
func (q *Question) First(v *fault.Verdict) int {
	for i, r := range q.Reports[:q.Me] {
		if !r.answered() || r.Dead != "" || slices.Contains(v.Blamed(), i) {
			continue
		}
		o := q.theirs(r)
		if q.Op.Number == 0 || o != nil && !q.Op.Message && (o.State == record.Failed || o.IsOpen() &&
			time.Duration(r.Time-max(o.Started, o.Enqueued)) >= q.Waited/2) {
			return i
		}
	}
	return q.Me
}

// blame makes a verdict on some ranks, the first of which is named.
func (q *Question) blame(kind fault.VerdictKind, ranks []int, what, mend string) *fault.Verdict {
	v := &fault.Verdict{Kind: kind, Rank: -1, What: what, Mend: mend}
	if len(ranks) == 0 {
		return v
	}
	v.Rank = ranks[0]
	if len(ranks) > 1 {
		v.Ranks = ranks
	}
	if ranks[0] >= len(q.Reports) {
		return v
	}
	if r := q.Reports[ranks[0]]; r != nil {
		v.Host, v.Process, v.Device = r.Host, r.PID, r.Device
	}
	return v
}

// ranks returns the ranks that were asked and satisfy f, excluding this rank.
func (q *Question) ranks(f func(r *Report) bool) (list []int) {
	for i, r := range q.Reports {
		if r != nil && i != q.Me && f(r) {
			list = append(list, i)
		}
	}
	return list
}

// name is the operation in a sentence.
func (q *Question) name() string { return fmt.Sprintf("%s (#%d)", q.Op.Name(), q.Op.Number) }

// plural is "rank 3 has" or "ranks 3-5, 8 have".
func plural(ranks []int, one, many string) string {
	if len(ranks) == 1 {
		return fmt.Sprintf("rank %d %s", ranks[0], one)
	}
	return "ranks " + List(ranks) + " " + many
}

// mostListed is how many ranges List writes.
const mostListed = 16

// List writes numbers with their runs joined, like "0-2, 5". A long list is cut.
func List(n []int) string {
	var parts []string
	for i := 0; i < len(n); {
		k := i
		for k+1 < len(n) && n[k+1] == n[k]+1 {
			k++
		}
		if len(parts) == mostListed {
			return strings.Join(parts, ", ") + fmt.Sprintf(" and %d more", len(n)-i)
		}
		part := fmt.Sprint(n[i])
		if k > i {
			part += fmt.Sprintf("-%d", n[k])
		}
		parts, i = append(parts, part), k+1
	}
	return strings.Join(parts, ", ")
}

func (q *Question) dead() *fault.Verdict {
	list := q.ranks(func(r *Report) bool { return r.Dead != "" || !r.answered() && r.State == "Z" })
	if len(list) == 0 {
		return nil
	}
	return Died(q.Reports[list[0]], list)
}

// Died is the verdict on ranks that are dead; r is the first of them.
func Died(r *Report, ranks []int) *fault.Verdict {
	what := plural(ranks, "is dead", "are dead")
	if r.Dead != "" {
		what += ": " + r.Dead
	}
	if r.answered() {
		what += "; " + r.was()
	}
	q := Question{Reports: make([]*Report, slices.Max(ranks)+1)}
	q.Reports[ranks[0]] = r
	return q.blame(fault.VerdictDead, ranks, what,
		"see why the process ended (its log, dmesg for the OOM killer, core files); the others can go on with Shrink")
}

// was is the latest call of a rank that calls no more.
func (r *Report) was() string {
	if o := r.Record.Last(); o != nil {
		return fmt.Sprintf("its last call was %s (#%d)", o.Name(), o.Number)
	}
	return "it has called nothing"
}

// aborted adopts the reason of a rank that knows why it has ended the communicator.
func (q *Question) aborted() *fault.Verdict {
	list := q.ranks(func(r *Report) bool {
		return r.answered() && (r.Ended != "" || r.Record.State == record.CommunicatorFailed)
	})
	if len(list) == 0 {
		return nil
	}
	what := plural(list, "has ended the communicator", "have ended the communicator")
	for _, i := range list {
		if c := q.Reports[i].Cause; c != nil && c.Kind != fault.VerdictAborted {
			v := *c
			v.Waiting = nil
			return &v
		}
	}
	if first := q.Reports[list[0]]; first.Ended != "" {
		what += ": " + first.Ended
	} else if said := first.Record.Verdict; said != nil {
		what += " after a failure: " + said.What
	}
	return q.blame(fault.VerdictAborted, list, what, "see the first error in the logs of the ranks")
}

// gone is about ranks that have left.
func (q *Question) gone() *fault.Verdict {
	list := q.ranks(func(r *Report) bool { return r.Left && !r.answered() })
	if len(list) == 0 {
		return nil
	}
	what := plural(list, "has left the communicator", "have left the communicator")
	return q.blame(fault.VerdictAborted, list, what,
		"see why: its process has closed or aborted the communicator, which its log may explain")
}

func (q *Question) stopped() *fault.Verdict {
	list := q.ranks(func(r *Report) bool { return !r.Left && strings.ContainsAny(r.State, "Tt") })
	if len(list) == 0 {
		return nil
	}
	r := q.Reports[list[0]]
	what := fmt.Sprintf("%s stopped by a signal or a debugger (state %s)", plural(list, "is", "are"), r.State)
	if r.answered() {
		what += "; " + r.was()
	}
	return q.blame(fault.VerdictStopped, list, what, fmt.Sprintf("let it go on: kill -CONT %d", r.PID))
}

func (q *Question) silent() *fault.Verdict {
	list := q.ranks(func(r *Report) bool { return !r.answered() && !r.Left })
	if len(list) == 0 {
		return nil
	}
	r := q.Reports[list[0]]
	verb := map[bool]string{true: "answers", false: "answer"}[len(list) == 1]
	if r.State != "" {
		return q.blame(fault.VerdictStarved, list, fmt.Sprintf(
			"%s and %s no questions (state %s): no thread of it gets a processor, or all of them hang in the kernel",
			plural(list, "lives", "live"), verb, r.State),
			fmt.Sprintf("look at the load and the limits of its cgroup, and at /proc/%d/stack", r.PID))
	}
	if slices.ContainsFunc(q.Reports, func(o *Report) bool { return o.answered() && o.Host == r.Host }) {
		return q.blame(fault.VerdictStarved, list, plural(list, verb, verb)+" no questions, but others on its host do",
			"see whether the process is stopped or gets no processor")
	}
	return q.blame(fault.VerdictNetwork, list, fmt.Sprintf("%s no questions, nor does any rank of host %s",
		plural(list, verb, verb), r.Host), "see whether that host is up and the network leads there")
}

// same reports whether two ranks called the same operation. Counts of an all-to-all-v differ between ranks, and so do
// numbers of tokens.
func same(o, p *record.Operation) bool {
	if o.Collective != p.Collective {
		return false
	}
	switch o.Collective {
	case "barrier":
		return true
	case "all_to_all_v", "all_to_all_v_device", "moe_notify", "moe_dispatch", "moe_combine":
		return o.Type == p.Type
	}
	return o.Type == p.Type && o.Op == p.Op && o.Root == p.Root && o.Count == p.Count
}

func (q *Question) differs() *fault.Verdict {
	if q.Op.Message {
		return q.messageDiffers()
	}
	list := q.ranks(func(r *Report) bool {
		o := q.theirs(r)
		return o != nil && !same(o, &q.Op)
	})
	if len(list) == 0 {
		return nil
	}
	odd := list
	switch alike := 1 + len(q.ranks((*Report).answered)) - len(list); {
	case len(list) > alike: // this rank is the odd one
		odd = []int{q.Me}
	case len(list) == alike && len(q.Reports) > 2: // those that answer do not tell
		odd = nil
	}
	first := q.Reports[list[0]]
	o := find(first.Record, false, q.Op.Number)
	what := fmt.Sprintf("%s %s as #%d, rank %d %s", plural(list, "calls", "call"), o.Name(), q.Op.Number, q.Me,
		q.Op.Name())
	mend := "all ranks must call the same operations with the same arguments in the same order; GOCCL_CHECK=1 refuses " +
		"other calls"
	if me := q.Reports[q.Me]; me.answered() && later(me.Record, o) != nil {
		if p := later(first.Record, &q.Op); p != nil {
			what += fmt.Sprintf("; there it is #%d: the order differs", p.Number)
		}
	}
	return q.blame(fault.VerdictMismatch, odd, what, mend)
}

// later finds an operation like o that has not ended, under a larger number.
func later(c *record.Communicator, o *record.Operation) *record.Operation {
	return c.First(func(p *record.Operation) bool {
		return !p.Message && p.Number > o.Number && p.IsOpen() && same(p, o)
	})
}

// messageDiffers compares the message that waits with the oldest one of the peer to or from this rank.
func (q *Question) messageDiffers() *fault.Verdict {
	r, o := q.partner()
	if o == nil || o.Bytes == q.Op.Bytes {
		return nil
	}
	return q.blame(fault.VerdictMismatch, []int{r.Rank}, fmt.Sprintf("rank %d calls %s, rank %d %s", r.Rank,
		o.Name(), q.Me, q.Op.Name()), "both sides of a message must give the same count and type")
}

// partner is the report of the peer of a message that waits, and its oldest message in the other direction that has not
// ended.
func (q *Question) partner() (*Report, *record.Operation) {
	if q.Op.Peer < 0 || q.Op.Peer >= len(q.Reports) {
		return nil, nil
	}
	r := q.Reports[q.Op.Peer]
	if !r.answered() {
		return nil, nil
	}
	other := map[string]string{"send": "recv", "recv": "send"}[q.Op.Collective]
	for i := range r.Record.Operations {
		o := &r.Record.Operations[i]
		switch {
		case o.Collective != other || o.Peer != q.Me:
		case o.IsOpen():
			return r, o
		case o.State == record.Captured || time.Duration(r.Time-o.Ended) < q.Waited-freshFor:
			return nil, nil // it may be the one, which has ended there
		}
	}
	return r, nil
}

func (q *Question) missing() *fault.Verdict {
	var list []int
	if q.Op.Message {
		if r, o := q.partner(); r != nil && o == nil {
			list = []int{r.Rank}
		}
	} else {
		list = q.ranks(func(r *Report) bool { return r.answered() && !called(r.Record, q.number(), q.Op.Number) })
	}
	if len(list) == 0 {
		return nil
	}
	r := q.Reports[list[0]]
	v := q.blame(fault.VerdictMissing, list, fmt.Sprintf("%s not called %s; %s", plural(list, "has", "have"),
		q.counterpart(), r.doing()), r.advise("see what the process does instead: py-spy dump --pid %[1]d, or goccl trace "+
		"--stack %[1]d", "see what the process does instead: py-spy dump --pid PID on its host"))
	for k := max(0, len(r.Record.Operations)-3); k < len(r.Record.Operations); k++ {
		o := &r.Record.Operations[k]
		v.Evidence = append(v.Evidence, fmt.Sprintf("rank %d: #%d %s: %s", r.Rank, o.Number, o.Name(), o.State))
	}
	return v
}

// counterpart names the call that the peers must make.
func (q *Question) counterpart() string {
	switch q.Op.Collective {
	case "send":
		return fmt.Sprintf("the recv of the %d × %s that rank %d sends it", q.Op.Count, q.Op.Type, q.Me)
	case "recv":
		return fmt.Sprintf("the send of the %d × %s that rank %d waits for", q.Op.Count, q.Op.Type, q.Me)
	}
	return q.name()
}
