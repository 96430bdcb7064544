package observe

import (
	"cmp"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/record"
)

// Snapshot is what was seen at one moment. Its JSON form is stable: fields are only added.
type Snapshot struct {
	Time time.Time `json:"time"`
	Host string    `json:"host"`
	// Communicators that are open, or were lost with their processes.
	Communicators []*Communicator  `json:"communicators"`
	Verdicts      []*fault.Verdict `json:"verdicts"`
	// Notes say what could not be seen, and how it can.
	Notes []string `json:"notes,omitempty"`
}

// Communicator is a communicator with the ranks that were seen.
type Communicator struct {
	// ID is the same on all ranks, as NCCL prints it (its "comm hash").
	ID    string  `json:"id"`
	Name  string  `json:"name,omitempty"`
	Size  int     `json:"size"`
	Nodes int     `json:"nodes,omitempty"`
	Ranks []*Rank `json:"ranks"`
	// Unseen lists the ranks of which no process was seen.
	Unseen []int `json:"unseen,omitempty"`
}

// States of the process of a rank.
const (
	Running = "running"
	Stopped = "stopped" // by SIGSTOP or a debugger
	Dead    = "dead"    // it is gone, and had not closed the communicator
	Unknown = "unknown" // from a dump
)

// Rank is one rank of a communicator.
type Rank struct {
	Rank int    `json:"rank"`
	Host string `json:"host"`
	PID  int    `json:"pid,omitempty"`
	GPU  int    `json:"gpu"` // -1: not known
	// Source is where this was read, like "nccl profiler v5".
	Source string `json:"source"`
	State  string `json:"state"`
	// Record has the last operations, oldest first, in the form of goccl's recorder, whatever the source.
	Record *record.Communicator `json:"record"`
	// Current is the oldest operation that has not ended, Last the newest that was called.
	Current *record.Operation `json:"current,omitempty"`
	Last    *record.Operation `json:"last,omitempty"`
	// Sums are over all operations since the start.
	Sums []Sum `json:"sums,omitempty"`
	// LateMs is how much later than the first rank it calls collectives, on average over the operations that all ranks
	// remember; BehindMs is how long it waited for the last rank.
	LateMs   float64 `json:"late_ms"`
	BehindMs float64 `json:"behind_ms"`
	// AsOf is the Unix time in ns to which a dump belongs; 0: now.
	AsOf int64 `json:"as_of,omitempty"`
}

// complete sets what follows from the records.
func (r *Rank) complete() {
	r.Last, r.Current = r.Record.Last(), r.Record.Open(false)
	if o := r.Record.Open(true); o != nil && (r.Current == nil || o.Enqueued < r.Current.Enqueued) {
		r.Current = o
	}
}

// calls counts the calls.
func (r *Rank) calls() uint64 { return r.Record.Collectives + r.Record.Messages }

// aborted reports whether the rank's library has ended the communicator after a failure.
func (r *Rank) aborted() bool { return r.Record.State == record.CommunicatorFailed }

// Since is how long an operation of the rank has been going on.
func (r *Rank) Since(o *record.Operation, now time.Time) time.Duration {
	return time.Duration(r.time(now) - o.Enqueued)
}

// time is the time to which the records belong.
func (r *Rank) time(now time.Time) int64 {
	return cmp.Or(r.AsOf, now.UnixNano())
}

// Sum is over the operations of one kind since the start of the communicator.
type Sum struct {
	Collective string `json:"collective"`
	Algorithm  string `json:"algorithm,omitempty"`
	Protocol   string `json:"protocol,omitempty"`
	// UpTo is the largest size of the class in bytes; 0: no limit; AnySize: sizes and algorithms are not known.
	UpTo  uint64 `json:"up_to"`
	Begun uint64 `json:"begun"`
	Ended uint64 `json:"ended"`
	Bytes uint64 `json:"bytes"`
	// QueuedNs is the time from calls to starts, BusyNs from starts to ends, and BusyBytes the bytes of those.
	QueuedNs  uint64 `json:"queued_ns"`
	BusyNs    uint64 `json:"busy_ns"`
	BusyBytes uint64 `json:"busy_bytes"`
}
