package judge

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/record"
)

// Report describes one rank of a communicator when an operation waits. All times in it are by the clock of the rank's
// host; only differences to Time count.
type Report struct {
	Rank   int                    `json:"rank"`
	Time   int64                  `json:"unix_ns"`
	Host   string                 `json:"host"`
	PID    int                    `json:"pid"`
	Device string                 `json:"device"`
	Record *record.Communicator   `json:"record"`           // of the communicator in question
	Others []*record.Communicator `json:"others,omitempty"` // of the rank's other communicators
	States map[int]string         `json:"states,omitempty"` // by rank: state in /proc of the processes on this host
	Links  []Link                 `json:"links,omitempty"`
	Known  []*Report              `json:"known,omitempty"` // of ranks of the other communicators
	// Next says that no other work runs on the stream of the oldest collective that has not started.
	Next bool `json:"next,omitempty"`

	Ended string         `json:"ended,omitempty"` // why the rank has ended the communicator, if it has
	Cause *fault.Verdict `json:"cause,omitempty"` // on what ended it

	Left  bool   `json:"-"` // the rank has left the communicator, and is not dead
	Dead  string `json:"-"` // why, if the rank is known to be dead
	State string `json:"-"` // its process's state in /proc, "" if unknown or if the rank answers
}

// Link is the state of a connection to a rank of another host.
type Link struct {
	Peer        int    `json:"peer"`
	Retransmits uint32 `json:"retransmits"` // of the segment that waits now
	Unacked     uint32 `json:"unacked"`     // segments
}

// answered reports whether the rank is known, and its records.
func (r *Report) answered() bool { return r != nil && r.Record != nil }

// heard lists the reports of ranks whose records are known.
func heard(reports []*Report) []*Report {
	return slices.DeleteFunc(slices.Clone(reports), func(r *Report) bool { return !r.answered() })
}

// sampled reports whether nobody sees the start of the rank's work.
func (r *Report) sampled() bool {
	switch r.Record.Engine {
	case record.EngineOnGPU, record.EngineOfHostsOnGPUs, record.EngineNCCLCalls, record.EngineTorch:
		return true
	}
	return false
}

// advise fills the process into an advice. Without a process, as in a dump of PyTorch, it returns the other advice.
func (r *Report) advise(known, unknown string) string {
	if r.PID == 0 {
		return unknown
	}
	return fmt.Sprintf(known, r.PID)
}

// Scope is the process and device of the rank: what runs one thing after another.
func (r *Report) Scope() string { return fmt.Sprintf("%s/%d/%s", r.Host, r.PID, r.Device) }

func (r *Report) ago(unix int64) time.Duration { return round(time.Duration(r.Time - unix)) }

func round(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(max(time.Microsecond, d/100))
}

// find returns the entry of an operation, nil if the ring does not have it.
func find(c *record.Communicator, message bool, number uint64) *record.Operation {
	return c.First(func(o *record.Operation) bool { return o.Message == message && o.Number == number })
}

// eager is the number of a collective among those that were not captured into graphs. Ranks may capture different
// numbers of collectives: two ranks call the same collective if its eager numbers are equal.
func eager(c *record.Communicator, number uint64) uint64 {
	captured := c.Captured
	for i := range c.Operations {
		if o := &c.Operations[i]; captured > 0 && !o.Message && o.State == record.Captured && o.Number > number {
			captured--
		}
	}
	return number - captured
}

// called reports whether a rank has called a collective, or may have.
func called(c *record.Communicator, eager, number uint64) bool {
	return c.Collectives >= number || c.Collectives-c.Captured >= eager
}

// number is the number of the operation among collectives that were not captured.
func (q *Question) number() uint64 {
	if me := q.Reports[q.Me]; me.answered() {
		return eager(me.Record, q.Op.Number)
	}
	return q.Op.Number
}

// theirs is a rank's entry of the operation; nil if its ring does not have it, or if it may be another one.
func (q *Question) theirs(r *Report) *record.Operation {
	if !r.answered() {
		return nil
	}
	o := find(r.Record, q.Op.Message, q.Op.Number)
	if o == nil || o.State == record.Captured || !q.Op.Message && eager(r.Record, o.Number) != q.number() {
		return nil
	}
	return o
}

// Clean makes a report of a peer safe to judge: parts that are not there are removed.
func (r *Report) Clean() {
	r.Others = slices.DeleteFunc(r.Others, func(c *record.Communicator) bool { return c == nil })
	r.Known = slices.DeleteFunc(r.Known, func(k *Report) bool { return k == nil || k.Record == nil })
	for _, k := range r.Known {
		k.Known = nil
		k.Clean()
	}
}

// doing describes where a rank is: the operation that it waits in, or the latest that it called.
func (r *Report) doing() string {
	of := ""
	for _, c := range append([]*record.Communicator{r.Record}, r.Others...) {
		if c != r.Record {
			of = " of communicator " + title(c)
		}
		if o := cmp.Or(c.Open(false), c.Open(true)); o != nil {
			return fmt.Sprintf("it has been in %s (#%d)%s for %v", o.Name(), o.Number, of, r.ago(max(o.Started, o.Enqueued)))
		}
	}
	o := r.Record.Last()
	switch {
	case o == nil:
		return "it has called nothing yet"
	case o.Ended == 0:
		return fmt.Sprintf("its last call was %s (#%d), %v ago", o.Name(), o.Number, r.ago(o.Enqueued))
	}
	return fmt.Sprintf("its last call, %s (#%d), ended %v ago", o.Name(), o.Number, r.ago(o.Ended))
}

// Title is what sentences call a communicator.
func Title(id, name string) string {
	if name != "" {
		return fmt.Sprintf("%q", name)
	}
	return id
}

func title(c *record.Communicator) string { return Title(c.ID, c.Name) }
