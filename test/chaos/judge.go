package chaos

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccl/goccl"
	errs "github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/test/ranks"
)

// judgement is a Verdict in the making.
type judgement struct {
	*experiment
	Verdict
	reports map[string]map[int]ranks.Report // the first of each event and rank

	told   time.Duration // until the last survivor had its error
	limit  time.Duration // of that time: the largest of any survivor
	waited bool          // a rank waited for one that had not come: its deadline says nothing about detection
}

// judge compares what the ranks said with what the fault must lead to.
func (x *experiment) judge(alive []int) Verdict {
	j := &judgement{experiment: x, Verdict: Verdict{Outcome: Handled}, reports: map[string]map[int]ranks.Report{}}
	for _, r := range x.job.Said() {
		if j.reports[r.Event] == nil {
			j.reports[r.Event] = map[int]ranks.Report{}
		}
		if _, ok := j.reports[r.Event][r.Rank]; !ok {
			j.reports[r.Event][r.Rank] = r
		}
	}
	for r, rep := range j.reports["wrong"] {
		j.is(Wrong, "rank %d: %s", r, rep.Text)
	}
	for r, rep := range j.reports["failed"] {
		if x.falseAlarm(rep) {
			j.is(FalseAlarm, "rank %d: %s", r, rep.Text)
		}
		j.is(Failed, "rank %d: %s", r, rep.Text)
	}
	j.limit = TellLimit
	for _, r := range alive {
		if !slices.Contains(x.Victims, r) {
			j.judgeError(r)
		}
	}
	if x.shrinks() {
		for _, r := range x.remaining(x.fault) {
			if r != x.leaver() {
				j.judgeRecovery(r)
			}
		}
	}
	if j.waited {
		j.Named = 0
	}
	for r, rep := range j.reports["leak"] {
		j.is(Leak, "rank %d left behind: %s", r, rep.Text)
	}
	for _, r := range alive {
		if s := x.job.State(r); s == nil || !s.Success() {
			j.is(Failed, "rank %d ended with %v", r, s)
		}
	}
	return j.Verdict
}

// is sets the outcome of the trial, unless there is one.
func (j *judgement) is(outcome, format string, args ...any) {
	if j.Outcome == Handled {
		j.Outcome, j.Text = outcome, fmt.Sprintf(format, args...)+"\n"+j.story()
	}
}

// judgeError judges the error of a rank that no fault struck: its kind, rank, verdict and time.
func (j *judgement) judgeError(r int) {
	e, failed := j.reports["error"][r]
	if want := cmp.Or(j.fault.verdict, expectedVerdicts[j.fault.expect]); failed && e.Verdict != "" && want != "" {
		if j.Judged++; e.Verdict == string(want) && slices.Contains(j.Victims, e.Blames) {
			j.Right++
		} else {
			j.Misjudged = append(j.Misjudged, fmt.Sprintf("rank %d, victims %v: %s of rank %d: %s", r, j.Victims, e.Verdict,
				e.Blames, e.Text))
		}
	}
	if outcome, why := j.expected(e, failed, j.reports["error"]); outcome != Handled {
		j.is(outcome, "rank %d: %s", r, why)
		return
	}
	if !failed {
		return
	}
	took, limit := j.since(e.Peer, e.At), j.wait(e)+TellLimit
	j.told, j.limit = max(j.told, took), max(j.limit, limit)
	if why := j.late("got its error", took, limit); why != "" {
		j.is(Late, "rank %d %s: %s", r, why, e.Text)
	}
	if e.Kind == goccl.ErrTimeout.Error() && j.fault.expect == death {
		j.waited = true
		return
	}
	at := e.At
	if n, ok := j.reports["named"][r]; ok && n.Peer == e.Peer {
		at = min(at, n.At)
	}
	j.Named = max(j.Named, j.since(e.Peer, at))
}

// judgeRecovery judges whether a rank has used a new communicator, and when.
func (j *judgement) judgeRecovery(r int) {
	s, ok := j.reports["shrunk"][r]
	if !ok {
		j.is(Failed, "rank %d did not go on", r)
		return
	}
	took := j.since(-1, s.At)
	if why := j.late("used its new communicator", took, j.limit+RecoverLimit); why != "" {
		j.is(Late, "rank %d %s (the last error came after %v)", r, why, j.told.Round(ms))
	}
	if !j.waited {
		j.Shrunk = max(j.Shrunk, took)
	}
}

// shrinks reports whether the survivors of this trial must get a communicator.
func (x *experiment) shrinks() bool {
	switch x.fault.expect {
	case death, stall, leaving, cut, mismatch:
		return x.Phase != "joining" && x.Phase != "close"
	}
	return false
}

// expectedKinds are the errors by expectation, where there has to be one.
var expectedKinds = map[expectation]error{death: goccl.ErrPeerDead, stall: goccl.ErrTimeout, leaving: goccl.ErrAborted,
	mismatch: goccl.ErrMismatch, cut: goccl.ErrPeerDead}

// expectedVerdicts are the kinds of the errors' verdicts.
var expectedVerdicts = map[expectation]errs.VerdictKind{death: errs.VerdictDead,
	stall: errs.VerdictStopped, mismatch: errs.VerdictMismatch}

// expected judges the error of a rank that no fault struck, or its absence.
func (x *experiment) expected(e ranks.Report, failed bool, all map[int]ranks.Report) (outcome, why string) {
	kind := expectedKinds[x.fault.expect]
	switch expect := x.fault.expect; {
	case !failed && kind != nil && !x.mayMiss():
		return Hang, "no error came"
	case !failed:
		return Handled, ""
	case expect == nothing:
		return FalseAlarm, e.Text
	case e.Text == errUnaware.Error():
		return Hang, e.Text
	case x.secondHand(e, all):
		return Handled, ""
	case expect == typed && (x.Phase == "joining" || x.Phase == "grow" || x.Phase == "close"):
	case expect == cut && e.Peer >= 0 && x.host(e.Peer) != x.host(e.Rank):
	case expect == otherRelease && !strings.Contains(e.Text, "release"):
		return WrongRank, "does not say that a rank has another release: " + e.Text
	case !slices.Contains(x.Victims, e.Peer):
		return WrongRank, "blames " + fmt.Sprint(e.Peer) + ": " + e.Text
	case kind != nil && e.Kind != kind.Error() && !x.mayDiffer(e):
		return WrongRank, "is of another kind: " + e.Text
	}
	return Handled, ""
}

// mayMiss reports whether a rank may come through the phase before the fault, or without the victim.
func (x *experiment) mayMiss() bool {
	return x.Phase == "close" || x.Phase == "shrink" || x.Phase == "joining" && x.fault.expect != death
}

// mayDiffer reports whether another kind of error that names a victim is right too: a rank that dies before it has
// joined is one that has not come, a rank that gives up its set-up closes its connections, and in Shrink one rank's
// error ends the call of the others.
func (x *experiment) mayDiffer(e ranks.Report) bool {
	switch x.Phase {
	case "joining", "grow":
		return e.Kind == goccl.ErrTimeout.Error()
	case "shrink":
		return e.Kind == goccl.ErrAborted.Error()
	case "set-up", "hosts-set-up":
		return x.fault.expect == leaving
	}
	return false
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
	case x.Phase == "grow" && e.Rank >= x.Ranks && e.Peer < 0:
		return true
	case x.Phase == "joining" && timeout, x.phase.colors != nil && e.Kind == goccl.ErrMismatch.Error(),
		x.Phase == "grow" && e.Rank >= x.Ranks:
		for range x.Ranks { // the peer's error may be one at second hand, too
			if slices.Contains(x.Victims, e.Peer) {
				return false
			}
			peer, failed := all[e.Peer]
			if !failed {
				return false
			}
			if e = peer; slices.Contains(x.Victims, e.Peer) {
				return true
			}
		}
	}
	return false
}

// since is the time from the strike of a rank, or else from the first strike, until at.
func (j *judgement) since(rank int, at int64) time.Duration {
	from := int64(0)
	if s, ok := j.reports["fault"][rank]; !j.struckAt.IsZero() {
		from = j.struckAt.UnixNano()
	} else if ok {
		from = s.At
	} else {
		for _, s := range j.reports["fault"] {
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
