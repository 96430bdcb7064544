package record

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/printable"
)

// Process is the records of a process at one time.
type Process struct {
	Version       int             `json:"version"`
	Time          int64           `json:"unix_ns"`
	Host          string          `json:"host"`
	PID           int             `json:"pid"`
	Program       string          `json:"program,omitempty"`
	Communicators []*Communicator `json:"communicators"`
}

// Communicator is the records of one rank of a communicator.
type Communicator struct {
	ID          string         `json:"id"` // 16 hexadecimal digits
	Name        string         `json:"name,omitempty"`
	Rank        int            `json:"rank"`
	Size        int            `json:"size"`
	Ranks       []int          `json:"ranks,omitempty"` // the job's numbers of the ranks, if they are others
	Device      string         `json:"device"`
	Engine      string         `json:"engine,omitempty"`
	State       string         `json:"state"`       // open or failed
	Collectives uint64         `json:"collectives"` // number of the latest
	Messages    uint64         `json:"messages"`
	Captured    uint64         `json:"captured,omitempty"` // of the collectives, into CUDA graphs
	Totals      []Total        `json:"totals,omitempty"`
	Operations  []Operation    `json:"operations"` // oldest first
	Waits       []Wait         `json:"waits,omitempty"`
	Verdict     *fault.Verdict `json:"verdict,omitempty"`
}

// Total counts the operations of one collective since the communicator was made.
type Total struct {
	Collective string `json:"collective"`
	Operations uint64 `json:"operations"`
	Bytes      uint64 `json:"bytes"`
	Time       int64  `json:"nanoseconds"` // from start to end
}

// Operation is one operation. Times are nanoseconds since 1970; 0: not yet.
type Operation struct {
	Number     uint64 `json:"number"`
	Message    bool   `json:"message,omitempty"` // a send or receive, which are numbered apart
	Collective string `json:"collective"`
	Type       string `json:"type"`
	Op         string `json:"op,omitempty"`
	Count      int64  `json:"count"`
	Bytes      int64  `json:"bytes"`
	Root       int    `json:"root"` // -1: none
	Peer       int    `json:"peer"` // -1: none
	Stream     uint64 `json:"stream"`
	Algorithm  string `json:"algorithm,omitempty"`
	Protocol   string `json:"protocol,omitempty"`
	State      string `json:"state"` // enqueued, started, ended, failed or captured
	Enqueued   int64  `json:"enqueued_ns"`
	Started    int64  `json:"started_ns,omitempty"`
	Ended      int64  `json:"ended_ns,omitempty"`
	Sampled    bool   `json:"sampled,omitempty"` // Ended is when somebody looked, or times are estimates
}

// Wait is what this rank waits for: until a flag of a peer, which has the value Have, reaches Epoch. NCCL's proxies
// have no epochs; it is known for how long they wait.
type Wait struct {
	Peer    int           `json:"peer"`
	Flag    string        `json:"flag"`
	Epoch   uint64        `json:"epoch"`
	Have    uint64        `json:"has"`
	For     time.Duration `json:"for_ns,omitempty"`
	Network bool          `json:"network,omitempty"` // for the peer, over the network
}

// String is like "phase 7, it has 6", or "data of the peer for 3.2s".
func (w *Wait) String() string {
	if w.For != 0 {
		return fmt.Sprintf("%s for %v", w.Flag, w.For.Round(w.For/100+1))
	}
	return fmt.Sprintf("%s %d, it has %d", w.Flag, w.Epoch, w.Have)
}

// Values of Communicator.State.
const (
	CommunicatorOpen   = "open"
	CommunicatorFailed = "failed"
)

// Values of Operation.State.
const (
	Enqueued = "enqueued"
	Started  = "started"
	Ended    = "ended"
	Failed   = "failed"
	Captured = "captured" // into a CUDA graph, whose runs nobody sees
)

// operation decodes an entry. ok is false if there is none, or if it changed meanwhile.
func (r *region) operation(message bool, want uint64, c *clock, algorithms []string) (o Operation, ok bool) {
	ring := r.ring(message)
	at := want % uint64(len(ring.entries))
	e, ran := &ring.entries[at], &ring.runs[at]
	if atomic.LoadUint64(&e.number) != want || want == 0 {
		return o, false
	}
	what, count, stream, enqueued := e.what, e.count, e.stream, e.enqueued
	var started, ended, flags uint64
	if atomic.LoadUint64(&ran.number) == want {
		if started, ended, flags = ran.started, ran.ended, ran.flags; atomic.LoadUint64(&ran.number) != want {
			return o, false
		}
	}
	if atomic.LoadUint64(&e.number) != want {
		return o, false
	}
	estimated := false
	for _, x := range []struct {
		time *uint64
		of   moment
	}{{&enqueued, calledAt}, {&started, startedAt}, {&ended, endedAt}} {
		if *x.time == untimed {
			*x.time, estimated = ring.estimate(x.of, want, c), true
		}
	}
	coll, t, op := collective.Collective(what), datatype.Type(what>>8&0xff), datatype.Op(what>>16&0xff)
	o = Operation{Number: want, Message: message, Collective: coll.String(), Type: t.String(), Count: int64(count),
		Bytes: int64(count) * t.Size(), Root: -1, Peer: -1, Stream: stream, State: Enqueued, Enqueued: c.unix(enqueued),
		Started: c.unix(started), Ended: c.unix(ended), Sampled: estimated || flags&flagSampled != 0}
	switch other := int(int32(what >> 32)); coll {
	case collective.Send, collective.Recv:
		o.Peer = other
	case collective.Broadcast, collective.Gather, collective.Scatter:
		o.Root = other
	case collective.Reduce:
		o.Root, o.Op = other, op.String()
	case collective.AllReduce, collective.ReduceScatter, collective.AllReduceFusion:
		o.Op = op.String()
	}
	if a := int(flags & 0xff); a > 0 && a <= len(algorithms) {
		o.Algorithm = algorithms[a-1]
	}
	switch {
	case ended != 0 && flags&flagCaptured != 0:
		o.State, o.Ended = Captured, 0
	case ended != 0 && flags&flagFailed != 0:
		o.State = Failed
	case ended != 0:
		o.State = Ended
	case started != 0:
		o.State = Started
	}
	return o, true
}

// Name describes an operation as a user called it, for example "all_reduce(sum) of 12 × float32".
func (o *Operation) Name() string {
	s := o.Collective
	if o.Op != "" {
		s += "(" + o.Op + ")"
	}
	if o.Collective == "barrier" {
		return s
	}
	s += fmt.Sprintf(" of %d × %s", o.Count, o.Type)
	switch {
	case o.Root >= 0:
		s += fmt.Sprintf(" with root %d", o.Root)
	case o.Collective == "send":
		s += fmt.Sprintf(" to rank %d", o.Peer)
	case o.Collective == "recv":
		s += fmt.Sprintf(" from rank %d", o.Peer)
	}
	return s
}

// Age is how long ago a time was.
func (p *Process) Age(unix int64) time.Duration { return time.Duration(p.Time - unix) }

func thisProcess() *Process {
	host, _ := os.Hostname()
	return &Process{Version: fileVersion, Time: Now(), Host: host, PID: os.Getpid(),
		Program: filepath.Base(os.Args[0]), Communicators: []*Communicator{}}
}

// Identity is ID; "" for nil.
func (c *Communicator) Identity() string {
	if c == nil {
		return ""
	}
	return c.ID
}

// Clean makes the texts of records that another process or host has written safe to print.
func (c *Communicator) Clean() {
	printable.Strings(&c.ID, &c.Name, &c.Device, &c.Engine, &c.State)
	for i := range c.Operations {
		o := &c.Operations[i]
		printable.Strings(&o.Collective, &o.Type, &o.Op, &o.Algorithm, &o.Protocol, &o.State)
	}
	for i := range c.Waits {
		c.Waits[i].Flag = printable.Line(c.Waits[i].Flag)
	}
	if v := c.Verdict; v != nil {
		printable.Strings(&v.Host, &v.Device, &v.Communicator, &v.Operation, &v.What, &v.Mend)
		for i := range v.Evidence {
			v.Evidence[i] = printable.Line(v.Evidence[i])
		}
	}
}

// IsOpen reports whether the operation has been called and has not ended, as far as is known.
func (o *Operation) IsOpen() bool { return o.State == Enqueued || o.State == Started }

// First returns the oldest operation that satisfies f, nil if there is none.
func (c *Communicator) First(f func(o *Operation) bool) *Operation {
	for i := range c.Operations {
		if o := &c.Operations[i]; f(o) {
			return o
		}
	}
	return nil
}

// Open returns the oldest operation that has not ended, nil if there is none.
func (c *Communicator) Open(message bool) *Operation {
	return c.First(func(o *Operation) bool { return o.Message == message && o.IsOpen() })
}

// Last is the latest operation that the rank has called, nil if there is none.
func (c *Communicator) Last() (last *Operation) {
	for i := range c.Operations {
		if o := &c.Operations[i]; last == nil || o.Enqueued >= last.Enqueued {
			last = o
		}
	}
	return last
}
