package watch

import (
	"slices"

	"github.com/goccl/goccl/collective"
)

// vagueKinds name no rank for sure.
var vagueKinds = []string{KindUnseen, KindNoProgress, KindNotStarted, KindNetwork}

// own takes the verdicts that the ranks' own library has found, where what was found here names nobody: it knows of
// ranks on other hosts, and of the GPU.
func (j *judge) own(c *Communicator, waiting []*Rank) {
	vague := func(v Verdict) bool {
		return v.Communicator == c.ID && slices.Contains(vagueKinds, v.Kind)
	}
	if slices.ContainsFunc(j.all, func(v Verdict) bool { return v.Communicator == c.ID && !vague(v) }) ||
		slices.ContainsFunc(j.waits, func(w wait) bool { return w.missing.c == c || w.held.c == c }) {
		return
	}
	var said []Verdict
	for _, r := range waiting {
		if r.Said == nil || r.Said.Rank < 0 {
			continue
		}
		v := Verdict{Kind: kindOf(r.Said.Kind), Communicator: c.ID, Ranks: []int{r.Said.Rank}, Host: r.Said.Host,
			PID: r.Said.Process, Text: r.Said.What, Mend: r.Said.Mend}
		if len(r.Said.Ranks) > 0 {
			v.Ranks = r.Said.Ranks
		}
		for _, x := range waiting {
			v.Waiting = append(v.Waiting, x.Rank)
			v.WaitingMs = max(v.WaitingMs, float64(x.since(x.Current, j.now))/1e6)
			v.Operation = title(x.Current)
		}
		if !slices.ContainsFunc(said, func(o Verdict) bool { return same(&o, &v) }) {
			said = append(said, v)
		}
	}
	if len(said) > 0 {
		j.all = append(slices.DeleteFunc(j.all, vague), said...)
	}
}

// kindOf is the name here of a kind of goccl's own verdicts.
func kindOf(k collective.VerdictKind) string {
	switch k {
	case collective.VerdictMissing:
		return KindNotCalled
	case collective.VerdictGPU, collective.VerdictUnknown:
		return KindNoProgress
	case collective.VerdictBusy:
		return KindNotStarted
	case collective.VerdictStarved:
		return KindSlow
	}
	return string(k)
}
