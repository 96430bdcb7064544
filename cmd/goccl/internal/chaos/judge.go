package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/internal/test/ranks"
)

// judge compares what the ranks said with what the fault must lead to.
func (x *experiment) judge(alive []int) Verdict {
	said := x.job.Said()
	first := func(event string) map[int]ranks.Report {
		m := map[int]ranks.Report{}
		for _, r := range said {
			if _, ok := m[r.Rank]; r.Event == event && !ok {
				m[r.Rank] = r
			}
		}
		return m
	}
	v := Verdict{Outcome: Handled}
	is := func(outcome, format string, args ...any) {
		if v.Outcome == Handled {
			v.Outcome, v.Text = outcome, fmt.Sprintf(format, args...)+"\n"+x.story()
		}
	}
	for r, rep := range first("wrong") {
		is(Wrong, "rank %d: %s", r, rep.Text)
	}
	for r, rep := range first("failed") {
		is(Failed, "rank %d: %s", r, rep.Text)
	}
	waited := false // some rank waited for one that nobody had heard of: its deadline says nothing about detection
	strikes, failures, shrunk, named := first("fault"), first("error"), first("shrunk"), first("named")
	for _, r := range alive {
		e, failed := failures[r]
		if slices.Contains(x.Victims, r) {
			continue
		}
		if want := cmp.Or(x.fault.verdict, expectedVerdicts[x.fault.expect]); failed && e.Verdict != "" && want != "" {
			if v.Judged++; e.Verdict == string(want) && slices.Contains(x.Victims, e.Blames) {
				v.Right++
			} else {
				v.Misjudged = append(v.Misjudged, fmt.Sprintf("rank %d, victims %v: %s of rank %d: %s", r, x.Victims, e.Verdict,
					e.Blames, e.Text))
			}
		}
		switch outcome, why := x.expected(e, failed, failures); {
		case outcome != Handled:
			is(outcome, "rank %d: %s", r, why)
		case failed && e.Kind == goccl.ErrTimeout.Error() && x.fault.expect == death: // of one that has not come
			waited = true
		case failed:
			at := e.At
			if n, ok := named[r]; ok && n.Peer == e.Peer {
				at = min(at, n.At)
			}
			v.Named = max(v.Named, x.since(strikes, e.Peer, at))
		}
	}
	if x.shrinks() {
		for _, r := range x.survivors() {
			if r == x.leaver() {
				continue
			}
			switch s, ok := shrunk[r]; {
			case !ok:
				is(Failed, "rank %d did not go on", r)
			case !waited:
				v.Shrunk = max(v.Shrunk, x.since(strikes, -1, s.At))
			}
		}
	}
	if waited {
		v.Named = 0
	}
	for r, rep := range first("leak") {
		is(Leak, "rank %d left behind: %s", r, rep.Text)
	}
	for _, r := range alive {
		if s := x.job.State(r); s == nil || !s.Success() {
			is(Failed, "rank %d ended with %v", r, s)
		}
	}
	return v
}

// shrinks reports whether the survivors of this trial must get a communicator.
func (x *experiment) shrinks() bool {
	switch x.fault.expect {
	case death, stall, leaving, cut:
		return x.Phase != "joining" && x.Phase != "close"
	}
	return false
}

// expectedKinds are the errors by expectation, where there has to be one.
var expectedKinds = map[expectation]error{death: goccl.ErrPeerDead, stall: goccl.ErrTimeout, leaving: goccl.ErrAborted,
	mismatch: goccl.ErrMismatch, cut: goccl.ErrPeerDead}

// expectedVerdicts are the kinds of the errors' verdicts.
var expectedVerdicts = map[expectation]collective.VerdictKind{death: collective.VerdictDead,
	stall: collective.VerdictStopped, mismatch: collective.VerdictMismatch}

// expected judges what one rank got, which no fault struck.
func (x *experiment) expected(e ranks.Report, failed bool, all map[int]ranks.Report) (outcome, why string) {
	kind := expectedKinds[x.fault.expect]
	switch {
	case !failed && kind != nil && !x.mayMiss():
		return Hang, "no error came"
	case !failed:
		return Handled, ""
	case kind == nil && x.fault.expect == nothing:
		return FalseAlarm, e.Text
	case kind == nil:
		return Handled, ""
	case e.Text == errUnaware.Error():
		return Hang, e.Text
	case x.secondHand(e, all):
		return Handled, ""
	case x.fault.expect == cut && e.Peer >= 0 && x.host(e.Peer) != x.host(e.Rank):
	case !slices.Contains(x.Victims, e.Peer):
		return WrongRank, "blames " + fmt.Sprint(e.Peer) + ": " + e.Text
	case e.Kind != kind.Error() && !x.mayDiffer(e):
		return WrongRank, "is of another kind: " + e.Text
	}
	return Handled, ""
}

// mayMiss reports whether a rank may come through the phase before the fault, or without the victim.
func (x *experiment) mayMiss() bool {
	return x.Phase == "close" || x.Phase == "shrink" || x.Phase == "joining" && x.fault.expect != death
}

// mayDiffer reports whether another kind of error is right too: a rank that dies before it has joined is one that has
// not come.
func (x *experiment) mayDiffer(e ranks.Report) bool {
	return (x.Phase == "joining" || x.Phase == "grow") && e.Kind == goccl.ErrTimeout.Error()
}

// secondHand reports whether an error is right although it names no victim:
//
//   - a rank that comes while the others give up finds nobody, or a peer that shrinks: the peer's own error names the
//     victim;
//   - several ranks that have not come are named together;
//   - who joins by a UniqueID and loses the root cannot know its rank; when a rank that knows better gives up, the new
//     one learns no more.
func (x *experiment) secondHand(e ranks.Report, all map[int]ranks.Report) bool {
	timeout := e.Kind == goccl.ErrTimeout.Error()
	switch {
	case x.Phase == "joining" && timeout && e.Peer < 0:
		return strings.Contains(e.Text, fmt.Sprintf("ranks %d have not come", x.Victims))
	case x.Phase == "joining" && timeout, x.Phase == "split" && e.Kind == goccl.ErrMismatch.Error():
		peer, failed := all[e.Peer]
		return failed && !slices.Contains(x.Victims, e.Peer) && slices.Contains(x.Victims, peer.Peer)
	case x.Phase == "grow" && e.Rank >= x.Ranks && e.Peer < 0:
		return true
	case x.Phase == "grow" && e.Rank >= x.Ranks:
		peer, failed := all[e.Peer]
		return failed && !slices.Contains(x.Victims, e.Peer) && slices.Contains(x.Victims, peer.Peer)
	}
	return false
}

// since is the time from the strike of a rank, or else from the first strike, until at.
func (x *experiment) since(strikes map[int]ranks.Report, rank int, at int64) time.Duration {
	from := int64(0)
	if s, ok := strikes[rank]; !x.struckAt.IsZero() {
		from = x.struckAt.UnixNano()
	} else if ok {
		from = s.At
	} else {
		for _, s := range strikes {
			if from == 0 || s.At < from {
				from = s.At
			}
		}
	}
	if from == 0 || at < from {
		return 0
	}
	return time.Duration(at - from)
}
