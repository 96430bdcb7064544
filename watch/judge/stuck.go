package judge

import (
	"fmt"
	"slices"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/record"
)

func (q *Question) busy() *fault.Verdict {
	list := q.ranks(func(r *Report) bool {
		o := q.theirs(r)
		return !q.Op.Message && o != nil && r.queued(o) > q.Waited/2 // else it has only just called
	})
	if len(list) == 0 {
		me := q.Reports[q.Me]
		if me == nil || me.Record == nil || me.queued(&q.Op) == 0 {
			return nil
		}
		list = []int{q.Me}
	}
	r, ago := q.Reports[list[0]], ""
	if o := q.theirs(r); o != nil {
		ago = fmt.Sprintf(" %v ago", r.ago(o.Enqueued))
	}
	return q.blame(fault.VerdictBusy, list, fmt.Sprintf("%s called %s%s, but earlier work on its stream still runs",
		plural(list, "has", "have"), q.name(), ago), busyMend)
}

// queued is how long an operation of the rank has waited for work on its stream that is not the communicator's; 0 if it
// has started, or if it may be that the process got no processor.
func (r *Report) queued(o *record.Operation) time.Duration {
	since, before := o.Enqueued, find(r.Record, o.Message, o.Number-1)
	if o.State != record.Enqueued || r.sampled() || r.Next || before != nil && before.IsOpen() {
		return 0
	}
	if before != nil {
		since = max(since, before.Ended)
	}
	return time.Duration(r.Time - since)
}

const busyMend = "see what was put on the stream before it: a kernel that does not end, a copy, a wait for an event"

// sampledFrom is how long an operation waits before its GPU or network is suspected, where nobody sees whether it has
// started: the work before it on its stream may take long.
const sampledFrom = 30 * time.Second

// stuck is for an operation that all ranks have called.
func (q *Question) stuck() *fault.Verdict {
	me := q.Reports[q.Me]
	behind := q.behind()
	switch {
	case me == nil || me.Record == nil || q.fresh() || !q.complied():
		return nil
	case me.Record.Engine == record.EngineNCCLCalls: // of an operation that has ended nobody would know
		return nil
	case q.proxies() != "" || q.resent():
		return q.network(behind)
	case me.sampled() && (q.Waited < sampledFrom || q.graphs()):
		return nil
	case me.Record.Engine == record.EngineOfHosts || me.Record.Engine == record.EngineOfHostsOnGPUs:
		if q.Waited < sampledFrom { // a large message takes long
			return nil
		}
		return q.network(behind)
	case me.sampled() || me.Record.Engine == record.EngineNCCL:
		what := "%s have launched %s, and the kernel makes no progress"
		if me.sampled() {
			what = "%s have launched %s, and it makes no progress: work before it on the streams runs, or its kernel hangs"
		}
		v := q.blame(fault.VerdictGPU, behind, fmt.Sprintf(what, q.all(), q.name()),
			"look for Xid errors in dmesg, and at nvidia-smi nvlink -e and -q -d PERFORMANCE,ECC,PCIE; a kernel of another "+
				"communicator may hold the GPU (GOCCL_MAX_CTAS)")
		v.Evidence = q.waits()
		return v
	}
	v := q.blame(fault.VerdictStarved, behind, fmt.Sprintf("%s have called %s", q.all(), q.name()),
		"look at the load of the host, the limits of the process's cgroup, and whether its memory is swapped out")
	if len(behind) > 0 {
		v.What += fmt.Sprintf(", and %s not get on", plural(behind, "does", "do"))
	}
	v.Evidence = q.waits()
	return v
}

// complied reports whether all ranks, as far as they were asked, are known to have called the operation.
func (q *Question) complied() bool {
	if q.Op.Message {
		_, o := q.partner()
		return o != nil
	}
	return !slices.ContainsFunc(q.Reports, func(r *Report) bool {
		return r.answered() && q.theirs(r) == nil && (r.Record.Captured > 0 ||
			r.Record.Collectives < q.Op.Number || find(r.Record, false, q.Op.Number) != nil)
	})
}

// resent reports whether a connection of a rank sends something again now.
func (q *Question) resent() bool {
	return slices.ContainsFunc(q.Reports, func(r *Report) bool {
		return r.answered() && slices.ContainsFunc(r.Links, func(l Link) bool { return l.Retransmits > 0 })
	})
}

// graphs reports whether a rank has captured collectives: nobody sees when their graphs run.
func (q *Question) graphs() bool {
	return slices.ContainsFunc(q.Reports, func(r *Report) bool {
		return r.answered() && r.Record.Captured > 0
	})
}

// all names the ranks that run the operation.
func (q *Question) all() string {
	if q.Op.Message {
		return "both sides"
	}
	return "all ranks"
}

// proxies names the first proxy that has waited for a peer for half of the time of the operation.
func (q *Question) proxies() string {
	for _, r := range heard(q.Reports) {
		for _, w := range r.Record.Waits {
			if w.Network && w.For > q.Waited/2 {
				return fmt.Sprintf("rank %d waits for rank %d: %v", r.Rank, w.Peer, &w)
			}
		}
	}
	return ""
}

// freshFor is how old the waits in reports may be: a recorder looks twice in that time.
const freshFor = 200 * time.Millisecond

// fresh reports whether a rank has only just begun the operation, so that the reported waits may be over.
func (q *Question) fresh() bool {
	return slices.ContainsFunc(heard(q.Reports), func(r *Report) bool {
		o := q.theirs(r)
		return !q.Op.Message && o != nil && time.Duration(r.Time-max(o.Started, o.Enqueued)) < freshFor
	})
}

// behind lists the ranks that others wait for and that wait for nobody themselves.
func (q *Question) behind() (list []int) {
	for _, r := range heard(q.Reports) {
		for _, w := range r.Record.Waits {
			if w.Peer < 0 || w.Peer >= len(q.Reports) || slices.Contains(list, w.Peer) {
				continue
			}
			if p := q.Reports[w.Peer]; !p.answered() || len(p.Record.Waits) == 0 || len(q.Reports) == 2 {
				list = append(list, w.Peer)
			}
		}
	}
	slices.Sort(list)
	return list
}

// waits lists who waits for what, as evidence.
func (q *Question) waits() (list []string) {
	for _, r := range heard(q.Reports) {
		for _, w := range r.Record.Waits {
			list = append(list, fmt.Sprintf("rank %d waits for rank %d: %v", r.Rank, w.Peer, &w))
		}
	}
	return list[:min(len(list), 8)]
}

func (q *Question) network(behind []int) *fault.Verdict {
	worst, from := Link{Peer: -1}, q.Me
	var evidence []string
	for _, r := range heard(q.Reports) {
		for _, l := range r.Links {
			if l.Retransmits == 0 && l.Unacked == 0 {
				continue
			}
			evidence = append(evidence, fmt.Sprintf("rank %d to rank %d: %d segments not acknowledged, sent again %d times",
				r.Rank, l.Peer, l.Unacked, l.Retransmits))
			if l.Retransmits > worst.Retransmits || worst.Peer < 0 {
				worst, from = l, r.Rank
			}
		}
	}
	what := fmt.Sprintf("%s run %s, and data between hosts does not arrive", q.all(), q.name())
	if p := q.proxies(); p != "" {
		what += ": " + p
	}
	if worst.Peer >= 0 && worst.Peer < len(q.Reports) {
		behind = []int{worst.Peer}
		what = fmt.Sprintf(
			"%s run %s, and what rank %d sends to rank %d does not arrive: it was sent again %d times", q.all(), q.name(),
			from, worst.Peer, worst.Retransmits)
	}
	v := q.blame(fault.VerdictNetwork, behind, what, "see whether packets are lost between the hosts: ip -s link, "+
		"ss -ti, ethtool -S, the counters of the switch")
	v.Evidence = append(evidence[:min(len(evidence), 8)], q.waits()...)
	return v
}

// Late explains an operation that has ended after a long wait: which rank called it late. It returns nil if none was
// later than least.
func Late(q *Question, least time.Duration) *fault.Verdict {
	worst, by := -1, least
	me := q.Reports[q.Me]
	if me == nil || me.Record == nil || q.Op.Message {
		return nil
	}
	for _, i := range q.ranks((*Report).answered) {
		r := q.Reports[i]
		o := q.theirs(r)
		if o == nil {
			continue
		}
		// Ages, because the clocks of hosts differ.
		if d := time.Duration((me.Time - q.Op.Enqueued) - (r.Time - o.Enqueued)); d > by {
			worst, by = i, d
		}
	}
	if worst < 0 {
		return nil
	}
	r := q.Reports[worst]
	v := q.blame(fault.VerdictStarved, []int{worst}, fmt.Sprintf(
		"rank %d called %s %v after rank %d, %v ago; it goes on",
		worst, q.name(), round(by), q.Me, r.ago(find(r.Record, false, q.Op.Number).Enqueued)),
		"see what keeps the host side of that rank busy: data loading, compilation, garbage collection, too few processors")
	q.complete(v)
	return v
}
