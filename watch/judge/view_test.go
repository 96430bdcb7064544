package judge_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/judge"
	"github.com/goccl/goccl/watch/record"
)

// idle ends the operation of all ranks.
func idle(list []*judge.Report) {
	for _, r := range list {
		o := &r.Record.Operations[4]
		o.State, o.Ended = record.Ended, r.Time
	}
}

// What an observer sees and ranks do not: records of the dead and the stopped, ranks that are not there, what the
// library has said, and the end of a job in which nobody waits.
func TestView(t *testing.T) {
	said := &fault.Verdict{Kind: fault.VerdictGPU, Rank: 2, Operation: "all_reduce", Number: 5, What: "a link"}
	for name, c := range map[string]struct {
		change func(list []*judge.Report, v *judge.View)
		kind   fault.VerdictKind
		ranks  []int
		part   string
	}{
		"dead": {func(list []*judge.Report, _ *judge.View) { list[1].Dead = "it has ended" }, fault.VerdictDead,
			[]int{1}, "rank 1 is dead: it has ended; its last call was all_reduce(sum) of 8 × float (#5)"},
		"dead, and nobody waits": {func(list []*judge.Report, _ *judge.View) {
			idle(list)
			list[1].Dead = "it has ended"
		}, fault.VerdictDead, []int{1}, "rank 1 is dead"},
		"stopped": {func(list []*judge.Report, _ *judge.View) { list[3].State = "T" }, fault.VerdictStopped, []int{3},
			"(state T); its last call was all_reduce(sum) of 8 × float (#5)"},
		"stopped, and nobody waits": {func(list []*judge.Report, _ *judge.View) {
			idle(list)
			list[3].State = "T"
		}, "", nil, ""},
		"all are stopped": {func(list []*judge.Report, _ *judge.View) {
			for _, r := range list {
				r.State = "T"
			}
		}, fault.VerdictStopped, []int{0, 1, 2, 3}, "ranks 0-3 are stopped"},
		"aborted": {func(list []*judge.Report, _ *judge.View) {
			idle(list)
			list[2].Record.State, list[2].Record.Verdict = record.CommunicatorFailed, said
		}, fault.VerdictAborted, []int{2}, "rank 2 has ended the communicator after a failure: a link"},
		"not seen": {func(list []*judge.Report, v *judge.View) { v.Reports[3] = nil }, fault.VerdictUnseen, []int{3},
			"rank 3 is not seen here"},
		"gone": {func(list []*judge.Report, v *judge.View) { v.Reports[3], v.Gone = nil, true }, fault.VerdictDead,
			[]int{3}, "no process of it has rank 3 any more"},
		"a cause that is seen comes first": {func(list []*judge.Report, v *judge.View) {
			v.Reports[3] = nil
			list[1].Record.Collectives, list[1].Record.Operations = 4, list[1].Record.Operations[:4]
		}, fault.VerdictMissing, []int{1}, "rank 1 has not called"},
		"the library knows more": {func(list []*judge.Report, v *judge.View) {
			v.Reports[3], list[0].Record.Verdict = nil, said
		}, fault.VerdictGPU, []int{2}, "a link"},
		"the library spoke of another operation": {func(list []*judge.Report, v *judge.View) {
			old := *said
			old.Number = 3
			v.Reports[3], list[0].Record.Verdict = nil, &old
		}, fault.VerdictUnseen, []int{3}, ""},
		"NCCL tells of calls alone": {func(list []*judge.Report, _ *judge.View) {
			for _, r := range list {
				r.Record.Engine, r.Record.Operations[4].State = record.EngineNCCLCalls, record.Enqueued
			}
		}, "", nil, ""},
		"no longer than the limit": {func(_ []*judge.Report, v *judge.View) { v.Stall = time.Hour }, "", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			list := reports(4, record.EngineNCCL)
			v := &judge.View{ID: "c", Reports: slices.Clone(list), Stall: 2 * time.Second}
			c.change(list, v)
			got := v.Judge()
			switch {
			case c.kind == "" && got == nil:
			case got == nil || got.Kind != c.kind || !slices.Equal(got.Blamed(), c.ranks) ||
				!strings.Contains(got.What, c.part) || got.Communicator != "c" || got.By != -1:
				t.Errorf("%+v", got)
			}
		})
	}
}
