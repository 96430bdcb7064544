package chaos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/test/ranks"
)

// TestMain is a rank of a trial if it was started as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "--rank" {
		os.Exit(Rank(os.Args[2], os.Stdin))
	}
	os.Exit(m.Run())
}

func program(t *testing.T) []string {
	t.Helper()
	p, err := Program("--rank")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A few trials of different kinds are handled.
func TestFewTrials(t *testing.T) {
	for _, o := range []Options{
		{Faults: []string{"kill"}, Phases: []string{"set-up", "small", "split", "plan", "proxy"}},
		{Faults: []string{"kill-two"}, Phases: []string{"shrink", "close"}},
		{Faults: []string{"exit"}, Phases: []string{"grow"}},
		{Faults: []string{"pause", "abort", "mismatch-type", "stale", "fork-kill", "bad-pointer"}, Phases: []string{"small"}},
		{Faults: []string{"order"}, Phases: []string{"two"}},
	} {
		o.Seed, o.Trials, o.Ranks, o.Program, o.Out = uint64(time.Now().UnixNano()), 1, 4, program(t), io.Discard
		o.Slow = 100 // the machine may be busy
		res, err := Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range res.Cells {
			if c.Handled() != c.Trials {
				t.Errorf("seed %d: %+v", o.Seed, *c)
			}
		}
	}
}

// Several trials at a time end up in the right cells, and the end of the context ends them all, between two trials.
func TestJobs(t *testing.T) {
	saved := 0
	o := Options{Faults: []string{"kill", "mismatch-type"}, Phases: []string{"small"}, Seed: 3, Trials: 7, Ranks: 3,
		Jobs: 3, Slow: 100, Program: program(t), Out: io.Discard, Save: func(*Result, bool) error { saved++; return nil }}
	res, err := Run(t.Context(), o)
	if err != nil || len(res.Cells) != 2 || res.Cells[0].Trials != 7 || res.Cells[1].Trials != 7 || saved != 15 {
		t.Fatalf("%v, saved %d times: %+v", err, saved, res)
	}
	ctx, stop := context.WithCancel(t.Context())
	o.Trials, o.Jobs = 1000, 2
	o.Save = func(*Result, bool) error { stop(); return nil }
	res, err = Run(ctx, o)
	if _, all := res.Handled(); !errors.Is(err, context.Canceled) || all == 0 || all > 20 {
		t.Errorf("%v after %d trials", err, all)
	}
}

// trial runs one with a changed fault.
func trial(t *testing.T, change func(f *fault)) Verdict {
	t.Helper()
	f, p := lookUp(faults(), "kill"), lookUp(phases(), "small")
	change(f)
	d := draw(f, p, 1, 1, 3)
	return d.run(f, p, program(t))
}

// What does not fit the expectation is found: a death where nothing may happen is a false alarm, and one where another
// kind of error must come is of the wrong kind.
func TestFindsTheUnexpected(t *testing.T) {
	if v := trial(t, func(f *fault) { f.expect = mismatch; f.victims = root }); v.Outcome == Handled {
		t.Errorf("a death in place of a mismatch: %+v", v)
	}
	x := &experiment{Trial: Trial{Phase: "small", Ranks: 3, Victims: []int{1}}, fault: lookUp(faults(), "kill"),
		phase: lookUp(phases(), "small")}
	for want, e := range map[string]ranks.Report{
		Handled:   {Peer: 1, Kind: "peer"},
		WrongRank: {Peer: 2, Kind: "peer"},
		Hang:      {Peer: -1, Text: errUnaware.Error()},
	} {
		if e.Kind != "" {
			e.Kind = ranks.NewReport(0, "", expectedKinds[death]).Kind
		}
		if got, why := x.expected(e, true, nil); got != want {
			t.Errorf("%+v: %s (%s), want %s", e, got, why, want)
		}
	}
	if got, _ := x.expected(ranks.Report{}, false, nil); got != Hang {
		t.Errorf("no error came: %s", got)
	}
	x.fault = lookUp(faults(), "pause")
	if got, _ := x.expected(ranks.Report{Peer: 1}, true, nil); got != FalseAlarm {
		t.Errorf("an error after a pause: %s", got)
	}
}

// The leaver's place is closed in the communicator of the others.
func TestNumbersInTheJob(t *testing.T) {
	x := Trial{Phase: "shrink", Ranks: 4, Victims: []int{3}} // rank 0 leaves
	for _, c := range []struct{ number, size, want int }{{2, 3, 3}, {0, 3, 1}, {2, 4, 2}, {-1, 3, -1}} {
		if got := x.inJob(c.number, c.size); got != c.want {
			t.Errorf("rank %d of %d is %d in the job, want %d", c.number, c.size, got, c.want)
		}
	}
	if x.Phase = "split"; x.inJob(2, 3) != 2 {
		t.Error("nobody leaves")
	}
}

// A trial follows from its seed, its fault, its phase and its number.
func TestDrawsAreReproducible(t *testing.T) {
	f, p := lookUp(faults(), "kill-two"), lookUp(phases(), "grow")
	a, b, c := draw(f, p, 7, 3, 4), draw(f, p, 7, 3, 4), draw(f, p, 7, 4, 4)
	if a.Seed != b.Seed || a.Delay != b.Delay || !slices.Equal(a.Victims, b.Victims) {
		t.Errorf("%+v and %+v", a, b)
	}
	if a.Seed == c.Seed || a.Delay == c.Delay {
		t.Errorf("trials 3 and 4 are one: %+v", c)
	}
	for i := range 100 {
		d := draw(f, p, 1, i, 4)
		if len(d.Victims) != 2 || d.Victims[1] > 4 {
			t.Fatalf("%+v", d)
		}
	}
}

// The stretches of a trial follow each other, in any order of reports, and add up to its time.
func TestSpend(t *testing.T) {
	began := time.Now()
	at := func(rank int, event string, d time.Duration) ranks.Report {
		return ranks.Report{Rank: rank, Event: event, At: began.Add(d).UnixNano()}
	}
	got := spend(began, []ranks.Report{at(1, "opened", 2*time.Second), at(0, "opened", time.Second),
		at(0, "begun", 5*time.Second), at(1, "begun", 4*time.Second), at(1, "fault", 6*time.Second),
		at(0, "error", 9*time.Second), at(1, "over", 3*time.Hour)}, began.Add(20*time.Second))
	want := map[string]time.Duration{"start": 2 * time.Second, "join": 3 * time.Second, "fault": time.Second,
		"verdict": 3 * time.Second, "end": 11 * time.Second}
	if !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Trials that share GPUs cannot see what theirs leave there, and the result says so.
func TestUnjudged(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{CUDA: true, Jobs: 8}, "device memory: 8 trials at a time share the GPUs"},
		{Options{CUDA: true, Jobs: 1}, ""}, {Options{CUDA: true}, ""}, {Options{Jobs: 8}, ""},
	} {
		text, err := newResult(c.o).Encode()
		if err != nil || strings.Contains(string(text), `"unjudged"`) != (c.want != "") ||
			!strings.Contains(string(text), c.want) {
			t.Errorf("%+v: %s, want %q: %v", c.o, text, c.want, err)
		}
	}
}

// A run fails without trials, with cells that were asked for and not tried, and with cells that do not exist. It names
// them, in its text and in the result.
func TestUntried(t *testing.T) {
	ended, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		ctx      context.Context
		o        Options
		failures []string
	}{
		{t.Context(), Options{Faults: []string{"mismatch", "order"}, Phases: []string{"two"}, Ranks: 3},
			[]string{"mismatch in two: untried: the fault does not happen in this phase"}},
		{t.Context(), Options{Faults: []string{"tmp-full"}, Phases: []string{"small"}, Program: []string{"/none"}},
			[]string{"tmp-full in small: untried: not possible here", "no trial was run"}},
		{t.Context(), Options{Phases: []string{"skewed"}, Trials: -1}, []string{"skew in skewed: untried: the run ended",
			"no trial was run"}},
		{ended, Options{Faults: []string{"kill"}, Phases: []string{"small", "close"}},
			[]string{"kill in small: untried: the run ended", "kill in close: untried: the run ended", "no trial was run"}},
	} {
		var out strings.Builder
		c.o.Out, c.o.Trials, c.o.Slow = &out, cmp.Or(c.o.Trials, 1), 100
		if c.o.Program == nil {
			c.o.Program = program(t)
		}
		res, err := Run(c.ctx, c.o)
		if err != nil && c.ctx == t.Context() {
			t.Fatal(err)
		}
		if res.OK || len(res.Failures) != len(c.failures) {
			t.Fatalf("%v: %v, want %v", c.o.Faults, res.Failures, c.failures)
		}
		text, err := res.Encode()
		if err != nil || !json.Valid(text) {
			t.Fatalf("%v: %s", err, text)
		}
		for i, want := range c.failures {
			if !strings.HasPrefix(res.Failures[i], want) || !strings.Contains(string(text), want) {
				t.Errorf("%v, want %q, also in %s", res.Failures, want, text)
			}
			if _, why, _ := strings.Cut(want, "untried"); !strings.Contains(out.String(), why) {
				t.Errorf("%s has no %q", out.String(), why)
			}
		}
	}
}

// A time is judged by the limit of its fault and phase.
func TestLimits(t *testing.T) {
	for _, c := range []struct {
		fault, phase string
		e            ranks.Report
		want         time.Duration
	}{
		{"kill", "small", ranks.Report{}, 0},
		{"kill", "joining", ranks.Report{Kind: goccl.ErrTimeout.Error()}, 3 * time.Second},
		{"stop", "small", ranks.Report{}, time.Second},
		{"stop", "split", ranks.Report{}, 3 * time.Second},
		{"desync", "set-up", ranks.Report{}, 3 * time.Second},
		{"abort", "colors", ranks.Report{}, 0},
		{"partition", "hosts-small", ranks.Report{}, 4 * time.Second},
		{"mixed", "joining", ranks.Report{}, 0},
	} {
		f, p := lookUp(faults(), c.fault), lookUp(phases(), c.phase)
		x := &experiment{Trial: draw(f, p, 1, 1, 4), fault: f, phase: p}
		if got := x.wait(c.e); got != c.want {
			t.Errorf("%s in %s: %v, want %v", c.fault, c.phase, got, c.want)
		}
		if x.Slow = 2; x.late("told", 2*TellLimit, TellLimit) != "" || x.late("told", 2*TellLimit+1, TellLimit) == "" {
			t.Error("the limit is another one")
		}
	}
}

// Every fault that the project's goals name happens in every phase that they name.
func TestGoals(t *testing.T) {
	for _, f := range []string{"kill", "stop", "abort", "desync", "mismatch"} {
		for _, p := range []string{"set-up", "small", "large", "split", "colors", "shrink", "plan"} {
			group, err := choose(faults(), []string{f})
			if err != nil || !slices.ContainsFunc(group[0], func(f *fault) bool { return f.runs(lookUp(phases(), p)) }) {
				t.Errorf("%s in %s: %v", f, p, err)
			}
		}
	}
}

func TestRefusesUnknownNames(t *testing.T) {
	for _, o := range []Options{{Faults: []string{"none"}}, {Phases: []string{"none"}}} {
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "choose among") {
			t.Error(err)
		}
	}
}
