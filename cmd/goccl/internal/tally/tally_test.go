package tally

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/watch/observe"
	"github.com/goccl/goccl/watch/record"
)

// A verdict that lasts counts once, an operation that is held up has its time, and the metrics pass the linter.
func TestMetrics(t *testing.T) {
	now := time.Now()
	held := &record.Operation{Number: 2, Collective: "all_reduce", Bytes: 4000, State: record.Started,
		Enqueued: now.Add(-5 * time.Second).UnixNano()}
	rank := &observe.Rank{Host: "vm", PID: 1, State: observe.Running, Current: held,
		Record: &record.Communicator{Operations: []record.Operation{*held}},
		Sums:   []observe.Sum{{Collective: "all_reduce", Algorithm: "RING", UpTo: 8192, Begun: 2, Ended: 1, Bytes: 8000}}}
	comm := &observe.Communicator{ID: "1", Size: 2, Ranks: []*observe.Rank{rank}}
	s := &observe.Snapshot{Time: now, Communicators: []*observe.Communicator{comm},
		Verdicts: []*fault.Verdict{{Kind: fault.VerdictMissing, Rank: 1, Communicator: "1"}}}
	tally := New(2 * time.Second)
	tally.Count(s)
	tally.Count(s)
	w := httptest.NewRecorder()
	tally.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	b, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`goccl_operations_total{algorithm="RING",class="to 8 KiB",collective="all_reduce",`,
		`goccl_verdicts_total{kind="missing"} 1`, `goccl_held_up_seconds{`, `kind="rss"`, "goccl_deaths_total 0",
		`goccl_network_retries_total{counter="retransmitted`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in\n%s", want, b)
		}
	}
	if problems, err := testutil.GatherAndLint(tally.Registry()); err != nil || len(problems) != 0 {
		t.Errorf("%v %v", problems, err)
	}
}
