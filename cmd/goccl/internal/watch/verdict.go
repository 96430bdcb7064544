package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Verdict names a rank, or several, and what is wrong with it.
type Verdict struct {
	Kind string `json:"kind"`
	// Communicator is its ID; Ranks are the ranks that hold the others up.
	Communicator string `json:"communicator"`
	Ranks        []int  `json:"ranks"`
	Host         string `json:"host,omitempty"`
	PID          int    `json:"pid,omitempty"`
	// Waiting are the ranks that wait for them, and WaitingMs for how long at most.
	Waiting   []int   `json:"waiting,omitempty"`
	WaitingMs float64 `json:"waiting_ms,omitempty"`
	// Operation is what the others wait in, like "AllReduce 17".
	Operation string `json:"operation,omitempty"`
	Text      string `json:"text"`
	Mend      string `json:"mend"`
}

// Kinds of verdicts, the gravest first.
const (
	KindDead       = "dead"        // the process is gone
	KindAborted    = "aborted"     // the library has ended the communicator
	KindStopped    = "stopped"     // the process is stopped
	KindMismatch   = "mismatch"    // another operation, type, count or root than the others
	KindDeadlock   = "deadlock"    // communicators wait for each other
	KindNotCalled  = "not_called"  // it has not called the operation
	KindUnmatched  = "unmatched"   // a message whose other side was not called
	KindNetwork    = "network"     // a transfer waits for a peer
	KindNotStarted = "not_started" // called, but not begun by the GPU
	KindNoProgress = "no_progress" // begun by all, and not ended
	KindUnseen     = "unseen"      // its process is not seen here
	KindSlow       = "slow"        // it makes the others wait, and they go on
)

var gravity = []string{KindDead, KindAborted, KindStopped, KindMismatch, KindDeadlock, KindNotCalled, KindUnmatched,
	KindNetwork, KindNotStarted, KindNoProgress, KindUnseen, KindSlow}

// Hang tells whether a verdict is about ranks that do not go on.
func (v *Verdict) Hang() bool { return v.Kind != KindSlow && v.Kind != KindUnseen }

// Judge compares the ranks of each communicator. An operation that takes longer than stall is held up.
func Judge(s *Snapshot, stall time.Duration) []Verdict {
	j := judge{now: s.Time, stall: stall, all: []Verdict{}}
	for _, c := range s.Communicators {
		for _, r := range c.Ranks {
			if j.stalled(r) {
				j.held = append(j.held, member{c, r})
			}
		}
	}
	for _, c := range s.Communicators {
		j.communicator(c)
	}
	j.deadlocks()
	for _, s := range j.stuck {
		j.own(s.c, s.waiting)
	}
	slices.SortStableFunc(j.all, func(a, b Verdict) int {
		return cmp.Compare(slices.Index(gravity, a.Kind), slices.Index(gravity, b.Kind))
	})
	return j.all
}

type member struct {
	c *Communicator
	r *Rank
}

type judge struct {
	now   time.Time
	stall time.Duration
	all   []Verdict
	held  []member // ranks in an operation that is held up
	// waits are processes that have not called what others wait for, because they are held up elsewhere.
	waits []wait
	stuck []stuck
}

// stuck is a communicator with ranks that wait.
type stuck struct {
	c       *Communicator
	waiting []*Rank
}

func (j *judge) stalled(r *Rank) bool {
	return r.Current != nil && r.State != Dead && r.since(r.Current, j.now) > j.stall
}

func (j *judge) add(kind string, c *Communicator, rs []*Rank, waiting []*Rank, mend, format string, v ...any) {
	d := Verdict{Kind: kind, Communicator: c.ID, Ranks: []int{}, Mend: mend, Text: fmt.Sprintf(format, v...)}
	for _, r := range rs {
		d.Ranks = append(d.Ranks, r.Rank)
	}
	if len(rs) == 1 {
		d.Host, d.PID = rs[0].Host, rs[0].PID
	}
	for _, r := range waiting {
		if !slices.Contains(rs, r) || len(rs) == len(waiting) {
			d.Waiting = append(d.Waiting, r.Rank)
			d.WaitingMs = max(d.WaitingMs, float64(r.since(r.Current, j.now))/1e6)
			d.Operation = title(r.Current)
		}
	}
	j.all = append(j.all, d)
}

func title(o *Operation) string { return fmt.Sprintf("%s %d", o.Func, o.Call) }

func describe(o *Operation) string {
	if o == nil {
		return "none"
	}
	text := fmt.Sprintf("%s of %d %s", title(o), o.Count, o.Type)
	if o.Message {
		return text + fmt.Sprintf(" with rank %d", o.Root)
	}
	return text
}

// communicator judges one communicator: first those of whom nothing can come, then the operation in which the others
// wait.
func (j *judge) communicator(c *Communicator) {
	var waiting, blamed []*Rank
	if slices.ContainsFunc(c.Ranks, j.stalled) { // the ranks in an operation wait for the stalled one
		for _, r := range c.Ranks {
			if r.Current != nil && r.State != Dead {
				waiting = append(waiting, r)
			}
		}
	}
	for _, r := range c.Ranks {
		switch {
		case r.Aborted != "":
			blamed = append(blamed, r)
			j.add(KindAborted, c, []*Rank{r}, waiting, "see the first error in the logs of the ranks", "%s", r.Aborted)
		case r.State == Dead:
			blamed = append(blamed, r)
			j.add(KindDead, c, []*Rank{r}, waiting,
				"see its log and dmesg (out of memory?), then start the job again or shrink it",
				"process %d has ended without closing the communicator; its last operation was %s", r.PID, describe(r.Last))
		case r.State == Stopped && len(waiting) > 0:
			blamed = append(blamed, r)
			j.add(KindStopped, c, []*Rank{r}, waiting, fmt.Sprintf("kill -CONT %d, or end the debugger that holds it", r.PID),
				"process %d is stopped; its last operation was %s", r.PID, describe(r.Last))
		}
	}
	if len(waiting) > 0 {
		j.stuck = append(j.stuck, stuck{c, waiting})
		blamed = append(blamed, j.collective(c, waiting, blamed)...)
		blamed = append(blamed, j.messages(c, waiting)...)
		if len(blamed) == 0 {
			j.noProgress(c, waiting)
		}
		if len(c.Unseen) > 0 && len(blamed) == 0 {
			j.unseen(c, waiting)
		}
		return
	}
	j.slow(c)
}

// collective compares the collective that holds the ranks up with what the others have called.
func (j *judge) collective(c *Communicator, waiting, known []*Rank) (blamed []*Rank) {
	var first *Operation
	for _, r := range waiting {
		if o := r.Current; !o.Message && (first == nil || o.Call < first.Call) {
			first = o
		}
	}
	if first == nil {
		return nil
	}
	shapes := map[string][]*Rank{}
	for _, r := range c.Ranks {
		if slices.Contains(known, r) {
			continue
		}
		if r.Collectives <= first.Call {
			if other := j.elsewhere(c, r); other != nil {
				j.waits = append(j.waits, wait{member{c, r}, *other, first})
				blamed = append(blamed, r)
				continue
			}
			blamed = append(blamed, r)
			j.add(KindNotCalled, c, []*Rank{r}, waiting,
				"look at what its process does (py-spy dump --pid, gdb -p): mostly an error, a data loader or a branch that "+
					"other ranks do not take",
				"process %d has not called %s; its last operation was %s", r.PID, describe(first), describe(r.Last))
			continue
		}
		if o := r.call(first.Call); o != nil {
			k := o.shape()
			shapes[k] = append(shapes[k], r)
		}
	}
	if len(shapes) > 1 {
		blamed = append(blamed, j.mismatch(c, shapes, first.Call, waiting)...)
	}
	return blamed
}

// call returns collective n, if the rank remembers it.
func (r *Rank) call(n uint64) *Operation {
	for i := range r.Recent {
		if o := &r.Recent[i]; !o.Message && o.Call == n {
			return o
		}
	}
	return nil
}

// shape is what all ranks must agree on.
func (o *Operation) shape() string {
	text := fmt.Sprintf("%s of %d %s", o.Func, o.Count, o.Type)
	switch o.Func {
	case "Broadcast", "Reduce", "Gather", "Scatter":
		text += fmt.Sprintf(" with root %d", o.Root)
	case "AlltoAllv":
		return o.Func + " of " + o.Type
	}
	return text
}

// mismatch blames the ranks that are fewer.
func (j *judge) mismatch(c *Communicator, shapes map[string][]*Rank, call uint64, waiting []*Rank) (blamed []*Rank) {
	names := make([]string, 0, len(shapes))
	for k := range shapes {
		names = append(names, k)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(shapes[b]), len(shapes[a])), cmp.Compare(shapes[a][0].Rank, shapes[b][0].Rank))
	})
	for _, k := range names[1:] {
		j.add(KindMismatch, c, shapes[k], waiting, "make every rank call the same collectives in the same order, with the "+
			"same type, count and root", "collective %d is %s here, and %s on %d ranks", call, k, names[0],
			len(shapes[names[0]]))
		blamed = append(blamed, shapes[k]...)
	}
	return blamed
}

// messages looks for the other side of messages that are held up.
func (j *judge) messages(c *Communicator, waiting []*Rank) (blamed []*Rank) {
	for _, r := range waiting {
		o := r.Current
		if !o.Message || o.Root < 0 || o.Root >= c.Size {
			continue
		}
		want := map[string]string{"Send": "Recv", "Recv": "Send"}[o.Func]
		i := slices.IndexFunc(c.Ranks, func(p *Rank) bool { return p.Rank == o.Root })
		if i < 0 || want == "" || c.Ranks[i].State != Running && c.Ranks[i].State != Unknown {
			continue
		}
		peer := c.Ranks[i]
		matched := slices.ContainsFunc(peer.Recent, func(p Operation) bool {
			return p.Message && p.Func == want && p.Root == r.Rank && p.State != Done
		})
		if matched || slices.Contains(blamed, peer) {
			continue
		}
		if other := j.elsewhere(c, peer); other != nil {
			j.waits = append(j.waits, wait{member{c, peer}, *other, o})
		} else {
			j.add(KindUnmatched, c, []*Rank{peer}, []*Rank{r}, "call "+want+" on that rank, or leave the "+o.Func+" out",
				"process %d has no %s for the %s of rank %d; its last operation was %s", peer.PID, want, o.Func, r.Rank,
				describe(peer.Last))
		}
		blamed = append(blamed, peer)
	}
	return blamed
}

// noProgress is about an operation that all ranks have called.
func (j *judge) noProgress(c *Communicator, waiting []*Rank) {
	var idle, slowNet []*Rank
	for _, r := range waiting {
		if r.Current.State == Enqueued {
			idle = append(idle, r)
		}
		for _, p := range r.WaitsFor {
			if p.Ms > float64(j.stall)/1e6 && strings.Contains(p.For, "peer") {
				slowNet = append(slowNet, r)
				j.add(KindNetwork, c, []*Rank{r}, waiting, "look at the link between the two hosts: ip -s link, ethtool -S, "+
					"ibstat, and the network's counters", "a proxy waits %.1f s for rank %d: %s", p.Ms/1e3, p.Rank, p.For)
				break
			}
		}
	}
	switch {
	case len(slowNet) > 0:
	case len(idle) > 0 && len(idle) < len(waiting):
		j.add(KindNotStarted, c, idle, waiting, "look for a kernel or a copy that does not end on the same stream, or for "+
			"a host that is too slow to launch", "has called %s, but its GPU has not begun it", describe(idle[0].Current))
	case len(c.Unseen) == 0:
		j.add(KindNoProgress, c, waiting, waiting, "see dmesg for Xid errors and run goccl doctor on the hosts: a link or "+
			"a GPU's memory may be broken; a rank whose stream is blocked looks the same",
			"all ranks have called %s, and it does not end", describe(waiting[0].Current))
	}
}

func (j *judge) unseen(c *Communicator, waiting []*Rank) {
	v := Verdict{Kind: KindUnseen, Communicator: c.ID, Ranks: c.Unseen,
		Text: "these ranks are not seen here, and the others wait: one of them may hold them up",
		Mend: "run goccl watch --http on their hosts and give their addresses by --join, or set NCCL_PROFILER_PLUGIN " +
			"for them"}
	if c.Nodes == 1 {
		v.Kind, v.Text = KindDead, "all ranks of this communicator are on one host, and no process of it has these any more"
		v.Mend = "see their logs and dmesg (out of memory?), then start the job again or shrink it"
	}
	for _, r := range waiting {
		v.Waiting = append(v.Waiting, r.Rank)
		v.WaitingMs = max(v.WaitingMs, float64(r.since(r.Current, j.now))/1e6)
		v.Operation = title(r.Current)
	}
	j.all = append(j.all, v)
}
