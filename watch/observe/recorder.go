package observe

import (
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/goccl/goccl/watch/record"
)

// recorderSource is the Source of ranks that goccl's own recorder tells of.
const recorderSource = "goccl recorder"

// AnySize is the size class of operations that were not seen one by one.
const AnySize = math.MaxUint64

func readRecorder(w *watched, state string) ([]Found, error) {
	p, err := record.ReadFile(w.file.Path())
	if err != nil {
		return nil, err
	}
	open := map[string]bool{}
	found := make([]Found, 0, len(p.Communicators))
	for _, c := range p.Communicators {
		open[c.ID] = true
		found = append(found, fromRecord(p, c, w, state))
	}
	maps.DeleteFunc(w.sums, func(id string, _ *summing) bool { return !open[id] })
	return found, nil
}

// FromRecord converts goccl's record of a rank of a process in a state to a Found.
func FromRecord(p *record.Process, c *record.Communicator, state string) Found {
	return fromRecord(p, c, nil, state)
}

// fromRecord is FromRecord with sums over earlier looks, if w is not nil.
func fromRecord(p *record.Process, c *record.Communicator, w *watched, state string) Found {
	r := &Rank{Rank: c.Rank, Host: p.Host, PID: p.PID, GPU: -1, Source: recorderSource, State: state, Record: c}
	if w != nil {
		r.PID = w.file.PID
	} else {
		r.AsOf = p.Time
	}
	if i := strings.LastIndexByte(c.Device, ':'); i >= 0 {
		if n, err := strconv.Atoi(c.Device[i+1:]); err == nil {
			r.GPU = n
		}
	}
	var sums *summing
	if w != nil {
		if sums = w.sums[c.ID]; sums == nil {
			sums = &summing{of: map[Sum]*Sum{}, done: map[bool]uint64{}}
			w.sums[c.ID] = sums
		}
		for i := range c.Operations {
			sums.add(&c.Operations[i])
		}
	}
	r.Sums = sums.all(c)
	return Found{ID: c.ID, Name: c.Name, Size: c.Size, Rank: r}
}

// mostSums bounds the kinds of operations of a communicator: an algorithm's name is what its process wrote.
const mostSums = 1 << 10

// summing counts operations that goccl's recorder shows one by one: it keeps totals by collective alone.
type summing struct {
	of   map[Sum]*Sum
	done map[bool]uint64 // the latest collective, and the latest message, that was counted
}

// add counts an operation once, when it has ended. Operations come in their order.
func (s *summing) add(o *record.Operation) {
	if o.IsOpen() || o.Number <= s.done[o.Message] {
		return
	}
	s.done[o.Message] = o.Number
	key := Sum{Collective: o.Collective, Algorithm: o.Algorithm, UpTo: 1024}
	for class := 0; uint64(o.Bytes) > key.UpTo; class++ {
		if key.UpTo *= 8; class == 6 {
			key.UpTo = 0
			break
		}
	}
	x := s.of[key]
	if x == nil {
		if len(s.of) == mostSums {
			return
		}
		x = new(key)
		s.of[key] = x
	}
	x.Begun++
	x.Ended++
	x.Bytes += uint64(o.Bytes)
	if o.Started >= o.Enqueued && o.Started != 0 {
		x.QueuedNs += uint64(o.Started - o.Enqueued)
		if o.Ended > o.Started {
			x.BusyNs += uint64(o.Ended - o.Started)
			x.BusyBytes += uint64(o.Bytes)
		}
	}
}

// all returns the sums, and for each collective the rest: its total without the operations that were seen one by one.
func (s *summing) all(c *record.Communicator) (sums []Sum) {
	counted := map[string]Sum{}
	if s != nil {
		for _, x := range s.of {
			sums = append(sums, *x)
			t := counted[x.Collective]
			t.Begun, t.Bytes, t.BusyNs = t.Begun+x.Begun, t.Bytes+x.Bytes, t.BusyNs+x.BusyNs
			counted[x.Collective] = t
		}
	}
	open := map[string]uint64{}
	for i := range c.Operations {
		if o := &c.Operations[i]; o.IsOpen() {
			open[o.Collective]++
		}
	}
	for _, t := range c.Totals {
		seen := counted[t.Collective]
		rest := Sum{Collective: t.Collective, UpTo: AnySize, Begun: less(t.Operations, seen.Begun),
			Bytes: less(t.Bytes, seen.Bytes), BusyNs: less(uint64(max(t.Time, 0)), seen.BusyNs)}
		rest.Ended = less(rest.Begun, open[t.Collective])
		if rest.BusyNs > 0 {
			rest.BusyBytes = rest.Bytes
		}
		if rest.Begun > 0 {
			sums = append(sums, rest)
		}
	}
	return sums
}

func less(a, b uint64) uint64 { return a - min(a, b) }

// readRecords reads a file of GOCCL_RECORD_DIR, which may remain of a process that was killed.
func readRecords(file string) (found []Found, err error) {
	p, err := record.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for _, c := range p.Communicators {
		found = append(found, fromRecord(p, c, nil, Unknown))
	}
	return found, nil
}
