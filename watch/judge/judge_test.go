package judge_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/judge"
	"github.com/goccl/goccl/watch/record"
)

// reports makes the reports of n ranks, two on each host, which all run operation 5 of an engine.
func reports(n int, engine string) []*judge.Report {
	at := time.Now().UnixNano()
	list := make([]*judge.Report, n)
	for r := range list {
		c := &record.Communicator{ID: "c", Rank: r, Size: n, Engine: engine, Collectives: 5, Device: fmt.Sprint("host:", r)}
		for k := range uint64(5) {
			o := record.Operation{Number: k + 1, Collective: "all_reduce", Op: "sum", Type: "float", Count: 8, Root: -1,
				Peer: -1, State: record.Ended, Enqueued: at - int64(20-k)*1e9, Started: at - int64(20-k)*1e9,
				Ended: at - int64(19-k)*1e9}
			if k == 4 {
				o.State, o.Ended = record.Started, 0
			}
			if engine == record.EngineOnGPU || engine == record.EngineOfHostsOnGPUs {
				if o.Started = 0; k == 4 {
					o.State = record.Enqueued
				}
			}
			c.Operations = append(c.Operations, o)
		}
		list[r] = &judge.Report{Rank: r, Time: at, Host: fmt.Sprint("h", r/2), PID: 100 + r, Device: c.Device, Record: c}
	}
	return list
}

func verdict(list []*judge.Report) *fault.Verdict { return verdictAfter(list, 3*time.Second) }

func verdictAfter(list []*judge.Report, waited time.Duration) *fault.Verdict {
	return judge.Judge(&judge.Question{Me: 0, Op: list[0].Record.Operations[4], Waited: waited, Reports: list})
}

// silence makes a rank one that does not answer.
func silence(r *judge.Report, state string) { r.Record, r.State = nil, state }

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		engine string
		change func(list []*judge.Report)
		kind   fault.VerdictKind
		rank   int
		part   string
	}{
		"gpu": {record.EngineNCCL, func(list []*judge.Report) {
			list[0].Record.Waits = []record.Wait{{Peer: 2, Flag: "start"}}
		}, fault.VerdictGPU, 2, "all ranks have launched"},
		"network": {"hosts", func(list []*judge.Report) {
			list[1].Links = []judge.Link{{Peer: 3, Retransmits: 4, Unacked: 2}, {Peer: 2, Unacked: 1}}
		}, fault.VerdictNetwork, 3, "what rank 1 sends to rank 3 does not arrive: it was sent again 4 times"},
		"network of GPUs": {record.EngineOfHostsOnGPUs, func(list []*judge.Report) {
			list[0].Links = []judge.Link{{Peer: 3, Retransmits: 2}}
		}, fault.VerdictNetwork, 3, "what rank 0 sends to rank 3 does not arrive"},
		"host gone": {"hosts", func(list []*judge.Report) {
			silence(list[2], "")
			silence(list[3], "")
		}, fault.VerdictNetwork, 2, "nor does any rank of host h1"},
		"silent beside a neighbour": {"hosts", func(list []*judge.Report) { silence(list[3], "") },
			fault.VerdictStarved, 3, "others on its host do"},
		"not scheduled": {"shm", func(list []*judge.Report) { silence(list[3], "R") }, fault.VerdictStarved, 3,
			"no thread of it gets a processor"},
		"a zombie": {"shm", func(list []*judge.Report) { silence(list[3], "Z") }, fault.VerdictDead, 3,
			"rank 3 is dead"},
		"stopped wins over missing": {"shm", func(list []*judge.Report) {
			silence(list[1], "T")
			list[3].Record.Collectives = 4
			list[3].Record.Operations = list[3].Record.Operations[:4]
		}, fault.VerdictStopped, 1, "state T"},
		"missing wins over silent": {"shm", func(list []*judge.Report) {
			silence(list[1], "S")
			list[3].Record.Collectives, list[3].Record.Operations = 4, list[3].Record.Operations[:4]
		}, fault.VerdictMissing, 3, "rank 3 has not called"},
		"several are missing": {"shm", func(list []*judge.Report) {
			for _, r := range []int{2, 3} {
				list[r].Record.Collectives = 4
				list[r].Record.Operations = list[r].Record.Operations[:4]
			}
		}, fault.VerdictMissing, 2, "ranks 2-3 have not called"},
		"this rank is the odd one": {"shm", func(list []*judge.Report) {
			for _, r := range list[1:] {
				r.Record.Operations[4].Count = 9
			}
		}, fault.VerdictMismatch, 0, "all_reduce(sum) of 9 × float"},
		"has left": {"shm", func(list []*judge.Report) {
			silence(list[3], "S")
			list[3].Left = true
		}, fault.VerdictAborted, 3, "rank 3 has left the communicator"},
		"missing wins over left": {"shm", func(list []*judge.Report) {
			silence(list[3], "S")
			list[3].Left = true
			list[1].Record.Collectives, list[1].Record.Operations = 4, list[1].Record.Operations[:4]
		}, fault.VerdictMissing, 1, "rank 1 has not called"},
		"has ended": {"shm", func(list []*judge.Report) { list[2].Ended = "the user has aborted it" },
			fault.VerdictAborted, 2, "rank 2 has ended the communicator: the user has aborted it"},
		"has ended for a reason": {"shm", func(list []*judge.Report) {
			list[2].Ended = "ranks differ"
			list[2].Cause = &fault.Verdict{Kind: fault.VerdictMismatch, Rank: 1, What: "rank 1 calls all_gather",
				Mend: "m"}
		}, fault.VerdictMismatch, 1, "rank 1 calls all_gather"},
		"missing among captures": {record.EngineOnGPU, func(list []*judge.Report) {
			for _, r := range list {
				capture(r, 2)
			}
			list[1].Record.Collectives, list[1].Record.Operations = 4, list[1].Record.Operations[:4]
		}, fault.VerdictMissing, 1, "rank 1 has not called"},
		"busy": {"shm", func(list []*judge.Report) { queue(list[2]) }, fault.VerdictBusy, 2,
			"earlier work on its stream still runs"},
		"gets no processor between two operations": {"shm", func(list []*judge.Report) {
			queue(list[2])
			list[2].Next = true
			list[0].Record.Waits = []record.Wait{{Peer: 2, Flag: "phase", Epoch: 9, Have: 8}}
		}, fault.VerdictStarved, 2, "rank 2 does not get on"},
		"gets no processor in the operation before": {"shm", func(list []*judge.Report) {
			queue(list[2])
			o := &list[2].Record.Operations[3]
			o.State, o.Ended = record.Started, 0
			list[0].Record.Waits = []record.Wait{{Peer: 2, Flag: "phase", Epoch: 9, Have: 8}}
		}, fault.VerdictStarved, 2, "rank 2 does not get on"},
		"does not get on": {"shm", func(list []*judge.Report) {
			for _, r := range []int{0, 1, 3} {
				list[r].Record.Waits = []record.Wait{{Peer: 2, Flag: "phase", Epoch: 9, Have: 8}}
			}
		}, fault.VerdictStarved, 2, "rank 2 does not get on"},
	} {
		t.Run(name, func(t *testing.T) {
			list := reports(4, c.engine)
			c.change(list)
			v := verdict(list)
			if v == nil || v.Kind != c.kind || v.Rank != c.rank || !strings.Contains(v.What, c.part) || v.Mend == "" ||
				v.Communicator != "c" || v.Number != 5 {
				t.Errorf("%+v", v)
			}
		})
	}
}

// queue makes the operation one that a rank has called and that waits on its stream.
func queue(r *judge.Report) {
	o := &r.Record.Operations[4]
	o.State, o.Started = record.Enqueued, 0
}

// capture makes operation n of a rank a captured one.
func capture(r *judge.Report, n int) {
	r.Record.Captured++
	o := &r.Record.Operations[n-1]
	o.State, o.Started, o.Ended = record.Captured, 0, 0
}

// Where the records do not tell, there is no verdict.
func TestJudgeIsSilent(t *testing.T) {
	for name, c := range map[string]struct {
		engine string
		waited time.Duration
		change func(list []*judge.Report)
	}{
		"not asked, and only just begun": {"shm", 3 * time.Second, func(list []*judge.Report) {
			list[2] = nil
			list[3].Record.Operations[4].Started = list[3].Time - int64(time.Millisecond)
		}},
		"a GPU has work before it":     {record.EngineOnGPU, 29 * time.Second, func([]*judge.Report) {}},
		"hosts of GPUs, too":           {record.EngineOfHostsOnGPUs, 29 * time.Second, func([]*judge.Report) {}},
		"a large message of hosts":     {record.EngineOfHosts, 29 * time.Second, func([]*judge.Report) {}},
		"a graph may run on a GPU now": {record.EngineOnGPU, time.Hour, func(list []*judge.Report) { capture(list[1], 2) }},
		"it is captured on one rank": {"shm", 3 * time.Second, func(list []*judge.Report) {
			capture(list[1], 5)
			capture(list[1], 4)
		}},
		"one rank has captured more often": {record.EngineOnGPU, 3 * time.Second, func(list []*judge.Report) {
			capture(list[0], 2)
			for _, r := range list[1:] {
				r.Record.Collectives, r.Record.Operations = 4, r.Record.Operations[:4]
			}
		}},
		"its stream has been busy only now": {"shm", 3 * time.Second, func(list []*judge.Report) {
			o := &list[2].Record.Operations[4]
			o.State, o.Started, o.Enqueued = record.Enqueued, 0, list[2].Time-int64(100*time.Millisecond)
		}},
		"the operation before has ended only now": {"shm", 3 * time.Second, func(list []*judge.Report) {
			queue(list[2])
			list[2].Record.Operations[3].Ended = list[2].Time - int64(100*time.Millisecond)
			list[3].Record.Operations[4].Started = list[3].Time - int64(time.Millisecond)
		}},
		"the message has ended at the peer": {"shm", 3 * time.Second, func(list []*judge.Report) {
			for i, name := range []string{"send", "recv"} {
				o := &list[i].Record.Operations[4]
				o.Message, o.Collective, o.Peer = true, name, 1-i
			}
			o := &list[1].Record.Operations[4]
			o.State, o.Ended = record.Ended, list[1].Time-int64(2*time.Second)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			list := reports(4, c.engine)
			c.change(list)
			if v := verdictAfter(list, c.waited); v != nil {
				t.Errorf("%+v", v)
			}
		})
	}
	if v := judge.Slow(0, reports(4, "shm")); v != nil {
		t.Errorf("%+v", v)
	}
}

// A wait in another communicator that was over before the next one began is no part of a circle.
func TestWaitsThatFollowEachOtherAreNoCircle(t *testing.T) {
	list := reports(2, "shm")
	at := list[0].Time
	wait := func(since int64) []record.Operation {
		return []record.Operation{{Number: 1, Collective: "all_reduce", State: record.Started, Started: since}}
	}
	list[1].Record.Collectives, list[1].Record.Operations = 4, list[1].Record.Operations[:4]
	list[1].Others = []*record.Communicator{{ID: "d", Rank: 1, Size: 2, Engine: "shm", Collectives: 1,
		Operations: wait(at - 9e9)}}
	list[0].Others = []*record.Communicator{{ID: "d", Rank: 0, Size: 2, Engine: "shm"}}
	if v := verdict(list); v == nil || v.Kind != fault.VerdictDeadlock {
		t.Fatalf("a circle: %+v", v)
	}
	list[0].Record.Operations[4].Started, list[0].Record.Operations[4].Enqueued = at-1e9, at-1e9
	list[1].Time = at - 2e9 // an old rumour
	if v := verdict(list); v != nil && v.Kind == fault.VerdictDeadlock {
		t.Errorf("%+v", v)
	}
}

// One of the ranks that wait tells the job, and lists of ranks are short.
func TestFirst(t *testing.T) {
	list := reports(32, "shm")
	for _, r := range list[1:] {
		r.Record.Collectives, r.Record.Operations = 4, r.Record.Operations[:4]
	}
	list[0].Record.Operations[4].Enqueued, list[9].Record = list[0].Time-1e9, reports(32, "shm")[9].Record
	q := &judge.Question{Me: 9, Op: list[9].Record.Operations[4], Waited: time.Second, Reports: list}
	v := judge.Judge(q)
	if v == nil || !strings.HasPrefix(v.What, "ranks 1-8, 10-31 have not called") || q.First(v) != 0 {
		t.Fatalf("%+v: rank %d tells", v, q.First(v))
	}
	q.Me = 0
	if q.First(v) != 0 {
		t.Error("rank 0 does not tell")
	}
	if got := judge.List([]int{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 32, 34}); !strings.HasSuffix(got,
		"30 and 2 more") {
		t.Error(got)
	}
}

// A rank is in another communicator by now; what a peer heard of it before does not count.
func TestOldRumours(t *testing.T) {
	list := reports(3, "shm")
	other := func(r int, ops ...record.Operation) []*record.Communicator {
		return []*record.Communicator{{ID: "d", Rank: r, Size: 3, Engine: "shm", Collectives: uint64(len(ops)),
			Operations: ops}}
	}
	for r := range 2 {
		list[r].Others = other(r)
	}
	late := list[2]
	late.Record.Collectives, late.Record.Operations = 4, late.Record.Operations[:4]
	before := *late
	before.Time, before.Others = late.Time-int64(time.Second), other(2)
	late.Others = other(2, record.Operation{Number: 1, Collective: "all_reduce", State: record.Started,
		Started: late.Time - 1e9})
	list[1].Known = []*judge.Report{&before}
	v := verdict(list)
	if v == nil || v.Kind != fault.VerdictDeadlock || v.Rank != 2 {
		t.Errorf("%+v", v)
	}
}
