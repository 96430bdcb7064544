package observe

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/judge"
	"github.com/goccl/goccl/watch/observe/records"
	"github.com/goccl/goccl/watch/record"
)

// job is a job of which one operation waits: a process for each rank, with the records of its communicators.
type job []*record.Process

// waiting makes a job of n ranks that have run four all-reduces, and wait in the fifth for 60 s.
func waiting(n int) job {
	now := time.Now().UnixNano()
	j := make(job, n)
	for r := range j {
		c := &record.Communicator{ID: fmt.Sprintf("%016x", 0xabc), Name: "world", Rank: r, Size: n, State: "open",
			Engine: "shm"}
		j[r] = &record.Process{Time: now, Host: "h", PID: 100 + r, Communicators: []*record.Communicator{c}}
		for k := range 5 {
			j.call(r, 0, "all_reduce", k == 4)
		}
	}
	return j
}

// call adds an operation of 8 floats to communicator c of a rank: it has ended, or waits.
func (j job) call(r, c int, name string, waits bool) *record.Operation {
	x := j[r].Communicators[c]
	at := j[r].Time - int64(time.Minute) - int64(10-len(x.Operations))*int64(time.Second)
	o := record.Operation{Collective: name, Type: "float", Count: 8, Bytes: 32, Root: -1, Peer: -1, Enqueued: at,
		Started: at + 1000, State: record.Started}
	latest := &x.Collectives
	if o.Message = name == "send" || name == "recv"; o.Message {
		latest = &x.Messages
	}
	if name == "broadcast" {
		o.Root = 0
	}
	*latest++
	if o.Number = *latest; !waits {
		o.State, o.Ended = record.Ended, at+2000
	}
	x.Operations = append(x.Operations, o)
	return &x.Operations[len(x.Operations)-1]
}

// undo takes the last call of a rank back, and returns its record.
func (j job) undo(r int) *record.Communicator {
	c := j[r].Communicators[0]
	c.Operations = c.Operations[:len(c.Operations)-1]
	c.Collectives--
	return c
}

// second gives all ranks another communicator, in which no operation runs.
func (j job) second() job {
	for r, p := range j {
		p.Communicators = append(p.Communicators, &record.Communicator{ID: fmt.Sprintf("%016x", 0xdef), Name: "second",
			Rank: r, Size: len(j), State: "open", Engine: "shm"})
		j.call(r, 1, "all_reduce", false)
	}
	return j
}

// sources are the ways by which goccl watch and the library come to know of a job.
var sources = map[string]func(t *testing.T, j job) []*fault.Verdict{
	"library":  byLibrary,
	"recorder": func(_ *testing.T, j job) []*fault.Verdict { return look(recorded{j}) },
	"profiler": func(_ *testing.T, j job) []*fault.Verdict { return look(plugged{j}) },
	"pytorch": func(t *testing.T, j job) []*fault.Verdict {
		dir := t.TempDir()
		for _, p := range j {
			if err := record.WriteTorch(dir, p); err != nil {
				t.Fatal(err)
			}
		}
		return look(&Dumps{Patterns: []string{filepath.Join(dir, "*")}})
	},
}

func look(s Source) []*fault.Verdict {
	w := &Watcher{Sources: []Source{s}, Stall: 2 * time.Second}
	return w.Look().Verdicts
}

type recorded struct{ job }

func (s recorded) Ranks() (found []Found, notes []string) {
	for _, p := range s.job {
		for _, c := range p.Communicators {
			found = append(found, fromRecord(p, c, nil, Running))
		}
	}
	return found, nil
}

type plugged struct{ job }

// Ranks plays the plugin: NCCL's names, and its clock.
func (s plugged) Ranks() (found []Found, notes []string) {
	offset := time.Now().UnixNano() - int64(monotonic())
	for _, p := range s.job {
		x := &records.Process{Host: p.Host, Profiler: 5}
		name := func(text string) uint8 {
			x.Names = append(x.Names, text)
			return uint8(len(x.Names) - 1)
		}
		for _, c := range p.Communicators {
			y := records.Comm{Name: c.Name, Rank: c.Rank, Size: c.Size, Nodes: 2,
				Ops: uint64(len(c.Operations)), Collectives: c.Collectives, Messages: c.Messages, Channels: 1}
			_, _ = fmt.Sscanf(c.ID, "%x", &y.ID)
			for i, o := range c.Operations {
				op := records.Op{Order: uint64(i + 1), Call: o.Number - 1, Count: uint64(o.Count), Bytes: uint64(o.Bytes),
					Root: int32(max(o.Root, o.Peer)), Kind: records.Collective, Func: name(ncclNames[o.Collective]),
					Type: name("ncclFloat32"), Algo: name("RING"), Proto: name("LL")}
				if o.Message {
					op.Kind = records.Message
				}
				for _, at := range []struct {
					to   *uint64
					from int64
				}{{&op.Enqueued, o.Enqueued}, {&op.Started, o.Started}, {&op.Ended, o.Ended}} {
					if at.from != 0 {
						*at.to = uint64(at.from - offset)
					}
				}
				y.Recent = append(y.Recent, op)
			}
			x.Comms = append(x.Comms, y)
		}
		found = append(found, ranks(x, p.PID, Running)...)
	}
	return found, nil
}

// byLibrary is what rank 0, whose operation waits, finds out by itself.
func byLibrary(_ *testing.T, j job) []*fault.Verdict {
	var reports []*judge.Report
	for r, p := range j {
		reports = append(reports, &judge.Report{Rank: r, Time: p.Time, Host: p.Host, PID: p.PID,
			Record: p.Communicators[0], Others: p.Communicators[1:]})
	}
	for _, message := range []bool{false, true} {
		if o := j[0].Communicators[0].Open(message); o != nil {
			q := judge.Question{Op: *o, Waited: time.Duration(j[0].Time - o.Enqueued), Reports: reports}
			return []*fault.Verdict{judge.Judge(&q)}
		}
	}
	return []*fault.Verdict{judge.Slow(0, reports)}
}

// One judge answers all sources: of the same situation all tell the same, in the same words.
func TestSourcesAgree(t *testing.T) {
	for name, c := range map[string]struct {
		make    func() job
		kind    fault.VerdictKind
		ranks   []int
		what    string // a part of the sentence
		waiting []int
		not     []string // sources that cannot know
	}{
		"missing": {make: func() job {
			j := waiting(4)
			j.undo(2)
			return j
		}, kind: fault.VerdictMissing, ranks: []int{2}, waiting: []int{0, 1, 3},
			what: "rank 2 has not called all_reduce of 8 × float (#5); its last call, all_reduce of 8 × float (#4), ended"},
		"several are missing": {make: func() job {
			j := waiting(4)
			j.undo(1)
			j.undo(3)
			return j
		}, kind: fault.VerdictMissing, ranks: []int{1, 3}, waiting: []int{0, 2}, what: "ranks 1, 3 have not called"},
		"another count": {make: func() job {
			j := waiting(4)
			j[1].Communicators[0].Operations[4].Count = 9
			return j
		}, kind: fault.VerdictMismatch, ranks: []int{1}, what: "all_reduce of 9 × float"},
		"another collective": {make: func() job {
			j := waiting(4)
			j.undo(3)
			j.call(3, 0, "broadcast", true)
			return j
		}, kind: fault.VerdictMismatch, ranks: []int{3},
			what: "broadcast of 8 × float"}, // PyTorch does not tell the root; any rank may be the one that asks
		"busy": {make: func() job {
			j := waiting(4)
			o := &j[3].Communicators[0].Operations[4]
			o.State, o.Started = record.Enqueued, 0
			return j
		}, kind: fault.VerdictBusy, ranks: []int{3},
			what: "rank 3 has called all_reduce of 8 × float (#5) 1m6s ago, but earlier work on its stream still runs",
			not:  []string{"pytorch"}}, // of a group whose starts are not looked at it cannot tell
		"deadlock": {make: func() job {
			j := waiting(2).second()
			j.undo(1)
			j.call(1, 1, "all_reduce", true)
			return j
		}, kind: fault.VerdictDeadlock, ranks: []int{1},
			what: "in different orders and wait for each other: rank 0 of communicator \"world\" waits in all_reduce of 8 × " +
				"float (#5) for rank 1; rank 1 of communicator \"second\" waits in all_reduce of 8 × float (#2) for rank 0"},
		"deadlock of more": {make: func() job {
			j := waiting(4).second()
			j.undo(2)
			j.call(2, 1, "all_reduce", true)
			return j
		}, kind: fault.VerdictDeadlock, ranks: []int{2}, what: "for rank 2; rank 2 of communicator \"second\" waits"},
		"a message without its other side": {make: func() job {
			j := waiting(3)
			for r := range j {
				j.undo(r)
			}
			j.call(0, 0, "recv", true).Peer = 2
			return j
		}, kind: fault.VerdictMissing, ranks: []int{2}, waiting: []int{0},
			what: "rank 2 has not called the send of the 8 × float that rank 0 waits for"},
		"a slow rank": {make: func() job {
			j := waiting(3)
			for r := range j {
				j.undo(r)
				for range 30 {
					j.call(r, 0, "all_reduce", false)
				}
				c := j[r].Communicators[0]
				for i := range c.Operations { // one a ms; rank 1 comes 0.5 ms after the others, which wait for it
					o := &c.Operations[i]
					o.Enqueued = j[r].Time - int64(len(c.Operations)-i)*1e6
					o.Started, o.Ended = o.Enqueued, o.Enqueued+600_000
					if r == 1 {
						o.Enqueued, o.Started = o.Enqueued+500_000, o.Started+500_000
					}
				}
			}
			return j
		}, kind: fault.VerdictSlow, ranks: []int{1}, what: "rank 1 came last to"},
		"nothing": {make: func() job {
			j := waiting(4)
			for r := range j {
				j.undo(r)
			}
			return j
		}},
	} {
		for source, verdicts := range sources {
			if slices.Contains(c.not, source) {
				continue
			}
			t.Run(name+"/"+source, func(t *testing.T) {
				all := verdicts(t, c.make())
				all = slices.DeleteFunc(all, func(v *fault.Verdict) bool { return v == nil })
				if c.kind == "" {
					if len(all) != 0 {
						t.Errorf("%+v", all[0])
					}
					return
				}
				if len(all) != 1 {
					t.Fatalf("%d verdicts: %v", len(all), all)
				}
				v := all[0]
				if v.Kind != c.kind || !slices.Equal(v.Blamed(), c.ranks) || !strings.Contains(v.What, c.what) || v.Mend == "" ||
					c.waiting != nil && !slices.Equal(v.Waiting, c.waiting) {
					t.Errorf("%s of %v (%v wait): %s", v.Kind, v.Blamed(), v.Waiting, v.What)
				}
			})
		}
	}
}
