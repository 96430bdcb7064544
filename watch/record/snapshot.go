package record

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/fault"
)

// Flag is what a wait is for.
type Flag uint32

// The flags that engines wait for.
const (
	FlagNone  Flag = iota
	FlagPhase      // all ranks have published a phase of the operation
	FlagPiece      // a piece of a message, or room for one
	FlagData       // data from another host
	FlagStart      // the rank's part of the operation, of which nothing arrived
)

var flagNames = []string{"", "phase", "piece of a message", "data from another host", "start"}

// String returns a name like "phase".
func (f Flag) String() string {
	if int(f) < len(flagNames) {
		return flagNames[f]
	}
	return fmt.Sprintf("flag %d", uint32(f))
}

// Snapshot copies the records; nil if there are none. A most of 0 is all operations of the ring.
func (x *Recorder) Snapshot(most int) *Communicator {
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	own.header().clock.adjust()
	return x.r.communicator(&own.header().clock, most)
}

// communicator decodes a region. It trusts no content: the region may be a file.
func (r *region) communicator(c *clock, most int) *Communicator {
	var m Meta
	_ = json.Unmarshal(get(r.mem[metaAt:entriesAt]), &m) // of a rank that was killed while it wrote: empty
	v := &Communicator{ID: fmt.Sprintf("%016x", r.id), Name: m.Name, Rank: int(r.rank), Size: int(r.size),
		Device: m.Device, Ranks: m.Ranks, Engine: m.Engine, State: CommunicatorOpen, Collectives: r.latest(false),
		Messages: r.latest(true), Captured: min(r.captured, r.latest(false)), Operations: []Operation{}}
	if r.state.Load() == regionFailed {
		v.State = CommunicatorFailed
	}
	for i := range r.totals {
		if t := r.totals[i]; t.operations != 0 {
			v.Totals = append(v.Totals, Total{collective.Collective(i).String(), t.operations, t.bytes,
				int64(float64(r.spent[i]) * c.rate())})
		}
	}
	for _, message := range []bool{false, true} {
		last, n := r.latest(message), uint64(len(r.rings[0].entries))
		if most > 0 {
			n = min(n, uint64(most))
		}
		first := last - min(last, n-1)
		for k := range last - first + 1 { // last may be anything
			if o, ok := r.operation(message, first+k, c, m.Algorithms); ok {
				v.Operations = append(v.Operations, o)
			}
		}
	}
	for _, w := range r.waits[:min(r.waiting.Load(), mostWaits)] {
		v.Waits = append(v.Waits, Wait{Peer: int(int32(w.peer)), Flag: Flag(w.flag).String(), Epoch: w.epoch,
			Have: w.have})
	}
	if text := get(r.mem[verdictAt:metaAt]); len(text) > 0 {
		var found fault.Verdict
		if json.Unmarshal(text, &found) == nil {
			v.Verdict = &found
		}
	}
	return v
}

// Find copies the entry of an operation; nil if the ring does not have it.
func (x *Recorder) Find(message bool, number uint64) *Operation {
	if x == nil {
		return nil
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		return nil
	}
	o, ok := x.r.operation(message, number, &own.header().clock, x.meta.Algorithms)
	if !ok {
		return nil
	}
	return &o
}

// Verdict is the latest verdict on a wait of this rank, nil if there is none.
func (x *Recorder) Verdict() *fault.Verdict {
	if x == nil {
		return nil
	}
	return x.verdict.Load()
}

// VerdictOn is the verdict on an operation, nil if there is none.
func (x *Recorder) VerdictOn(message bool, number uint64) *fault.Verdict {
	v := x.Verdict()
	if v == nil || v.Number != number || message != (v.Operation == "send" || v.Operation == "recv") {
		return nil
	}
	return v
}

// Judged stores a verdict; nil removes it.
func (x *Recorder) Judged(v *fault.Verdict) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.verdict.Store(v)
	if x.closed {
		return
	}
	room := x.r.mem[verdictAt:metaAt]
	room[0] = 0
	if v == nil {
		return
	}
	text, _ := json.Marshal(v)
	if len(text) >= verdictBytes {
		short := *v
		short.Evidence = nil
		text, _ = json.Marshal(short)
	}
	if len(text) < verdictBytes {
		put(room, text)
	}
}

// unfinished returns the oldest operation of a ring that has not ended, and when it can have begun: not before the one
// before it ended. from is where to look; next is where to look the next time. The
// caller holds mu.
func (x *Recorder) unfinished(message bool, from uint64, c *clock) (o Operation, since int64, next uint64) {
	ring, last := x.r.ring(message), x.r.latest(message)
	for number := max(from, last-min(last, x.mask), 1); number <= last; number++ {
		e := &ring.runs[number&x.mask]
		end := e.ended
		if atomic.LoadUint64(&e.number) == number && end != 0 {
			if end != untimed {
				since = c.unix(end)
			}
			continue
		}
		x.adopt(message, number)
		if o, ok := x.r.operation(message, number, c, nil); ok {
			if o.Started != 0 {
				since = o.Started
			}
			return o, max(since, o.Enqueued), number
		}
	}
	return o, 0, last + 1
}

// age is how long ago a time was.
func age(unix int64) time.Duration { return time.Duration(Now() - unix) }
