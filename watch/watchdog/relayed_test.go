package watchdog

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goccl/goccl/watch/judge"
	"github.com/goccl/goccl/watch/record"
)

func from(pid int, at int64) *judge.Report {
	return &judge.Report{PID: pid, Time: at, Host: "a", Record: &record.Communicator{}, States: map[int]string{1: "S"}}
}

// A rank passes on what others say and relay, the newest of each, without details, and never its own words.
func TestRelayed(t *testing.T) {
	g := relayedReports{by: map[string]map[string]relayedReport{}}
	me, told := from(1, 10), from(2, 10)
	told.Known = []*judge.Report{from(3, 7), from(1, 5), nil, {PID: 4}}
	g.add(me, told)
	g.add(me, from(2, 9))
	seen := map[int]int64{}
	for _, r := range g.of(me) {
		if seen[r.PID] = r.Time; r.Known != nil || r.States != nil {
			t.Errorf("rank %d is relayed with details: %+v", r.PID, r)
		}
	}
	if want := "map[2:10 3:7]"; fmt.Sprint(seen) != want {
		t.Errorf("relayed %v, want %s", seen, want)
	}
	if told.Known == nil {
		t.Error("the report itself has changed")
	}
}

// Reports are bounded in number and in age.
func TestRelayedIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := relayedReports{by: map[string]map[string]relayedReport{}}
		me := from(1, 1)
		for pid := range mostRelayed + 5 {
			g.add(me, from(pid+2, 1))
		}
		if n := len(g.of(me)); n != mostRelayed {
			t.Errorf("%d reports are kept, want %d", n, mostRelayed)
		}
		time.Sleep(relayFor + time.Second)
		if list := g.of(me); len(list) > 0 || len(g.by) > 0 {
			t.Errorf("after %v there are %d reports of %d ranks", relayFor, len(list), len(g.by))
		}
	})
}
