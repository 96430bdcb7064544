package watch

import (
	"time"

	"github.com/goccl/goccl/collective"
)

// Snapshot is what was seen at one moment. Its JSON form is stable: fields are only added.
type Snapshot struct {
	Time time.Time `json:"time"`
	Host string    `json:"host"`
	// Communicators that are open, or were lost with their processes.
	Communicators []*Communicator `json:"communicators"`
	Verdicts      []Verdict       `json:"verdicts"`
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
	// compared is over how many collectives lateness was taken.
	compared int
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
	// Collectives and Messages count calls.
	Collectives uint64 `json:"collectives"`
	Messages    uint64 `json:"messages"`
	// Current is the oldest operation that has not ended, Last the newest that was called.
	Current *Operation `json:"current,omitempty"`
	Last    *Operation `json:"last,omitempty"`
	// WaitsFor lists peers for which the network waits.
	WaitsFor []Peer `json:"waits_for,omitempty"`
	// Recent holds the last operations, oldest first; Sums all since the start.
	Recent []Operation `json:"recent,omitempty"`
	Sums   []Sum       `json:"sums,omitempty"`
	// LateMs is how much later than the first rank it calls collectives, on average over the operations that all ranks
	// remember; BehindMs is how long it waited for the last rank.
	LateMs   float64 `json:"late_ms"`
	BehindMs float64 `json:"behind_ms"`
	// Aborted says that the library has ended the communicator, and why.
	Aborted string `json:"aborted,omitempty"`
	// Said is the verdict that the rank's own library has found.
	Said *collective.Verdict `json:"said,omitempty"`
	// asOf is the Unix time in ns to which a dump belongs; 0: now.
	asOf int64
}

// since is how long an operation of the rank has been going on.
func (r *Rank) since(o *Operation, now time.Time) time.Duration {
	if r.asOf != 0 {
		return time.Duration(r.asOf - o.Enqueued)
	}
	return time.Duration(now.UnixNano() - o.Enqueued)
}

// States of an operation.
const (
	Enqueued = "enqueued" // called; the GPU has not begun
	OnGPU    = "running"
	Done     = "done"
	Captured = "captured" // into a CUDA graph: nothing is known of its runs
)

// Operation is one collective or message.
type Operation struct {
	// Call is its number among the communicator's collectives, or messages, from 0.
	Call    uint64 `json:"call"`
	Message bool   `json:"message,omitempty"`
	Func    string `json:"func"`
	Type    string `json:"type"`
	Count   uint64 `json:"count"`
	Bytes   uint64 `json:"bytes"`
	// Root is the root of a collective, the peer of a message.
	Root      int    `json:"root"`
	Algorithm string `json:"algorithm,omitempty"`
	Protocol  string `json:"protocol,omitempty"`
	Stream    uint64 `json:"stream,omitempty"`
	State     string `json:"state"`
	// Enqueued, Started and Ended are Unix times in ns; 0: not yet.
	Enqueued int64 `json:"enqueued"`
	Started  int64 `json:"started,omitempty"`
	Ended    int64 `json:"ended,omitempty"`
}

// Peer is a peer for which a transfer waits.
type Peer struct {
	Rank int `json:"rank"`
	// For is what the transfer waits for, like "the peer to take data".
	For string  `json:"for"`
	Ms  float64 `json:"ms"`
}

// Sum is over the operations of one kind since the start of the communicator.
type Sum struct {
	Func      string `json:"func"`
	Algorithm string `json:"algorithm,omitempty"`
	Protocol  string `json:"protocol,omitempty"`
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
