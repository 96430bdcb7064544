package observe

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/proc"
	"github.com/goccl/goccl/watch/observe/records"
	"github.com/goccl/goccl/watch/record"
)

// Processes is the Source of the processes of this host that have loaded libgoccl-profiler.so, or that run goccl and
// record. It remembers those that have ended while it looked.
type Processes struct {
	Proc string // "/proc"
	PIDs []int  // nil: all
	open map[string]*watched
	gone map[string]bool // memories that others still hold and that are not read again
}

// watched is a memory of a process.
type watched struct {
	file *records.File
	read func(w *watched, state string) ([]Found, error) // the open communicators
	sums map[string]*summing                             // of goccl's recorder, by communicator
	lost []Found                                         // of a process that has ended without closing them
}

// NewProcesses returns a Source of some processes, or of all.
func NewProcesses(pids ...int) *Processes {
	return &Processes{Proc: "/proc", PIDs: pids, open: map[string]*watched{}, gone: map[string]bool{}}
}

// Close forgets all processes.
func (s *Processes) Close() error {
	for key, w := range s.open {
		_ = w.file.Close()
		delete(s.open, key)
	}
	return nil
}

// Ranks returns the ranks of the open communicators, and of those that were open when their processes ended.
func (s *Processes) Ranks() (found []Found, notes []string) {
	files, items := newBudget(userFiles, allFiles), newBudget(userItems, allItems)
	for _, w := range s.open {
		files.take(w.file.UID, 1)
	}
	if denied := s.find(files); denied > 0 && len(s.PIDs) > 0 {
		notes = append(notes, fmt.Sprintf("%d of the processes may not be read: run goccl watch as their user or as root",
			denied))
	}
	for _, key := range slices.Sorted(maps.Keys(s.open)) { // the order decides who has room
		w := s.open[key]
		own, state, err := w.look(s.Proc)
		if err != nil {
			notes = append(notes, fmt.Sprintf("process %d: %v", w.file.PID, err))
		}
		own = slices.DeleteFunc(own, func(f Found) bool { return !items.take(w.file.UID, f.items()) })
		found = append(found, own...)
		if state != Dead {
			continue
		}
		w.lost = own
		_ = w.file.Close() // it would keep the memory
		if len(own) == 0 || 2*files.used[w.file.UID] > userFiles {
			delete(s.open, key)
			s.gone[key] = true
		}
	}
	notes = append(append(notes, files.notes("processes are")...), items.notes("communicators are")...)
	return withoutTwins(found), notes
}

// find opens the memories that are new, and forgets which of the old ones nobody holds any more.
func (s *Processes) find(files *budget) (denied int) {
	held := map[string]bool{}
	known := func(key string) bool {
		if s.gone[key] {
			held[key] = true
		}
		return s.open[key] != nil || s.gone[key]
	}
	for _, kind := range []struct {
		name string
		read func(*watched, string) ([]Found, error)
	}{{records.Recorder, readRecorder}, {records.Profiler, readProfiler}} {
		var list []*records.File
		list, denied = records.Find(s.Proc, kind.name, s.PIDs, known,
			func(f *records.File) bool { return files.take(f.UID, 1) })
		for _, f := range list {
			s.open[f.Key()] = &watched{file: f, read: kind.read, sums: map[string]*summing{}}
		}
	}
	s.gone = held
	return denied
}

// look reads the communicators of a process that lives, or that ended after the last look.
func (w *watched) look(proc string) (own []Found, state string, err error) {
	if w.lost != nil {
		return w.lost, Dead, nil
	}
	// The state first: a process that ends between the two is seen as running, with its last records.
	state = processState(proc, w.file.PID)
	own, err = w.read(w, state)
	return own, state, err
}

// withoutTwins leaves out what the plugin says of a communicator of goccl that goccl's own recorder tells of: a process
// may have both.
func withoutTwins(found []Found) []Found {
	type key struct {
		id        string
		size, pid int
		rank      int
	}
	own := map[key]bool{}
	of := func(f *Found) key { return key{f.ID, f.Size, f.Rank.PID, f.Rank.Rank} }
	for i := range found {
		if found[i].Rank.Source == recorderSource {
			own[of(&found[i])] = true
		}
	}
	return slices.DeleteFunc(found, func(f Found) bool { return f.Rank.Source != recorderSource && own[of(&f)] })
}

func readProfiler(w *watched, state string) ([]Found, error) {
	p, err := w.file.Read()
	if err != nil {
		return nil, err
	}
	return ranks(p, w.file.PID, state), nil
}

// processState looks at a process. A zombie is dead.
func processState(root string, pid int) string {
	stat, err := proc.Read(root, pid)
	switch {
	case errors.As(err, new(*fs.PathError)):
		return Dead
	case err != nil:
		return Unknown
	}
	switch stat.State {
	case 'T', 't':
		return Stopped
	case 'Z', 'X':
		return Dead
	}
	return Running
}

func monotonic() uint64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return uint64(t.Nano())
}

// ranks returns the open communicators of a process.
func ranks(p *records.Process, pid int, state string) (found []Found) {
	// Unix time of a moment of CLOCK_MONOTONIC, by today's difference: the clock may have been set since the start.
	offset := time.Now().UnixNano() - int64(monotonic())
	for i := range p.Comms {
		c := &p.Comms[i]
		r := &Rank{Rank: c.Rank, Host: p.Host, PID: pid, GPU: -1, Source: fmt.Sprintf("nccl profiler v%d", p.Profiler),
			State: state, Record: profiled(p, c, offset)}
		for i := range c.Sums {
			r.Sums = append(r.Sums, sumOf(p, &c.Sums[i]))
		}
		found = append(found, Found{ID: r.Record.ID, Name: c.Name, Size: c.Size, Nodes: c.Nodes, Rank: r})
	}
	return found
}

// profiled turns the plugin's record of a communicator into the form of goccl's recorder.
func profiled(p *records.Process, c *records.Comm, offset int64) *record.Communicator {
	x := &record.Communicator{ID: fmt.Sprintf("%016x", c.ID), Name: c.Name, Rank: c.Rank, Size: c.Size,
		Engine: record.EngineNCCL, State: record.CommunicatorOpen, Collectives: c.Collectives, Messages: c.Messages}
	at := func(t uint64) int64 {
		if t == 0 {
			return 0
		}
		return int64(t) + offset
	}
	done, started := uint64(0), false // operations of a communicator end in their order
	for i := range c.Recent {
		if c.Recent[i].Ended != 0 {
			done = c.Recent[i].Order
		}
		started = started || c.Recent[i].Started != 0
	}
	blind := c.Channels == 0 && !started
	if blind {
		x.Engine = record.EngineNCCLCalls
	}
	for i := range c.Recent {
		o := &c.Recent[i]
		op := record.Operation{Number: o.Call + 1, Message: o.Kind == records.Message, Count: int64(o.Count),
			Bytes: int64(o.Bytes), Root: -1, Peer: -1, Algorithm: p.Text(o.Algo), Protocol: p.Text(o.Proto),
			Stream: o.Stream, Enqueued: at(o.Enqueued), Started: at(o.Started), Ended: at(o.Ended), State: record.Enqueued}
		op.Collective, op.Type = collectiveOfNCCL(p.Text(o.Func)), typeOfNCCL(p.Text(o.Type))
		switch op.Collective {
		case "send", "recv":
			op.Peer = int(o.Root)
		case "broadcast", "reduce", "gather", "scatter":
			op.Root = int(o.Root)
		}
		switch {
		case o.Flags&records.Captured != 0:
			op.State = record.Captured
		case o.Ended != 0 || o.Order < done || blind && o.Order < c.Ops: // blind: the newest may be all that is open
			op.State = record.Ended
		case o.Started != 0:
			op.State = record.Started
		}
		x.Operations = append(x.Operations, op)
	}
	now := monotonic()
	for i := range c.Proxies {
		y := &c.Proxies[i]
		if what := proxyStates[y.State]; y.Ended == 0 && what != "" && now > y.Since {
			x.Waits = append(x.Waits, record.Wait{Peer: int(y.Peer), Flag: what, For: time.Duration(now - y.Since),
				Network: strings.Contains(what, "peer")})
		}
	}
	return x
}

func sumOf(p *records.Process, s *records.Sum) Sum {
	sum := Sum{Collective: collectiveOfNCCL(p.Text(s.Func())), Algorithm: p.Text(s.Algo()), Protocol: p.Text(s.Proto()),
		Begun: s.Begun, Ended: s.Ended, Bytes: s.Bytes, QueuedNs: s.QueuedNs, BusyNs: s.BusyNs, BusyBytes: s.BusyBytes}
	if class := s.Class(); class < 7 {
		sum.UpTo = 1024 << (3 * class)
	}
	return sum
}

// proxyStates tells what a step of a proxy waits for, by NCCL's number of its state.
var proxyStates = map[uint8]string{
	8: "its own GPU to fill a buffer", 9: "the network to send", 10: "data of the peer",
	11: "the flush of received data", 12: "its own GPU to empty a buffer", 20: "the peer to take data",
}
