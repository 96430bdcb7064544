package record

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Chrome is a trace in Chrome's format of events, which Perfetto and chrome://tracing show.
type Chrome struct {
	Events []Event `json:"traceEvents"`
	Unit   string  `json:"displayTimeUnit"`
}

// Event is one event of a trace: X a span, M a name. Times are microseconds.
type Event struct {
	Name     string         `json:"name"`
	Phase    string         `json:"ph"`
	Time     float64        `json:"ts"`
	Duration float64        `json:"dur,omitempty"`
	PID      int            `json:"pid"`
	TID      int            `json:"tid"`
	Category string         `json:"cat,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// Trace shows records as a trace: a rank of the job is a process of the trace, a communicator has two threads, for the
// time from call to start and from start to end. A span that has not ended lasts until the records were read.
func Trace(processes ...*Process) *Chrome {
	t := &Chrome{Events: []Event{}, Unit: "ns"}
	begin := int64(0)
	for _, p := range processes {
		for _, c := range p.Communicators {
			for _, o := range c.Operations {
				if begin == 0 || o.Enqueued < begin {
					begin = o.Enqueued
				}
			}
		}
	}
	names := map[int]string{}
	for _, p := range processes {
		lane := map[int]int{}
		for _, c := range p.Communicators {
			rank := c.global(c.Rank)
			names[rank] = fmt.Sprintf("rank %d: process %d on %s, %s", rank, p.PID, p.Host, c.Device)
			lane[rank] += 2
			t.add(p, c, begin, rank, lane[rank])
		}
	}
	for _, rank := range slices.Sorted(maps.Keys(names)) {
		t.name("process_name", rank, 0, names[rank])
	}
	return t
}

func (t *Chrome) name(what string, pid, tid int, name string) {
	t.Events = append(t.Events, Event{Name: what, Phase: "M", PID: pid, TID: tid, Args: map[string]any{"name": name}})
}

func (t *Chrome) add(p *Process, c *Communicator, begin int64, pid, tid int) {
	name := strings.TrimSpace(c.Name + " " + c.ID)
	t.name("thread_name", pid, tid, name+": called")
	t.name("thread_name", pid, tid+1, name+": runs")
	span := func(tid int, o *Operation, from, to int64) {
		args := map[string]any{"number": o.Number, "bytes": o.Bytes, "state": o.State, "stream": o.Stream}
		if o.Algorithm != "" {
			args["algorithm"] = o.Algorithm
		}
		t.Events = append(t.Events, Event{Name: o.Name(), Phase: "X", Time: float64(from-begin) / 1e3,
			Duration: max(0, float64(to-from)/1e3), PID: pid, TID: tid, Category: o.Collective, Args: args})
	}
	for i := range c.Operations {
		o := &c.Operations[i]
		end := cmp.Or(o.Ended, p.Time)
		if o.Started == 0 {
			span(tid, o, o.Enqueued, end)
			continue
		}
		span(tid, o, o.Enqueued, o.Started)
		span(tid+1, o, o.Started, end)
	}
}

// WriteTrace writes Trace of several processes, for example the ranks of a job.
func WriteTrace(w io.Writer, processes ...*Process) error { return writeJSON(w, Trace(processes...)) }
