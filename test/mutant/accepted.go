package mutant

import (
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/verify"
)

// Tally counts mutants.
type Tally struct {
	Tried, Accepted, Distinct int
}

// Add adds o to t.
func (t *Tally) Add(o Tally) {
	t.Tried, t.Accepted, t.Distinct = t.Tried+o.Tried, t.Accepted+o.Accepted, t.Distinct+o.Distinct
}

// Accepted makes n mutants of p, of one change or several, and calls f for each that the verifier accepts, once if
// several are the same plan.
func Accepted(name string, p *plan.Plan, seed uint64, n int,
	f func(what string, q *plan.Plan, r *verify.Report)) (t Tally) {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // a hash returns no error
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	text := p.Encode()
	seen := map[string]bool{string(text): true}
	for range n {
		q, err := plan.Decode(text)
		if err != nil {
			panic(err)
		}
		var changes []string
		for len(changes) == 0 || rng.IntN(4) == 0 {
			what := Mutate(q, rng)
			if what == "" {
				break
			}
			changes = append(changes, what)
		}
		t.Tried++
		r, err := verify.Check(q, verify.Options{})
		if err != nil {
			continue
		}
		t.Accepted++
		if key := string(q.Encode()); !seen[key] {
			seen[key] = true
			t.Distinct++
			f(strings.Join(changes, "; "), q, r)
		}
	}
	return t
}

// Messages chooses n sizes up to most bytes that q takes, of whole elements of elem bytes.
func Messages(q *plan.Plan, r *verify.Report, elem uint64, n int, most uint64, rng *rand.Rand) (out []uint64) {
	unit := elem * uint64(len(q.GPUs))
	if r.EvenOnly {
		unit = q.EvenUnit()
	}
	for range 64 * n {
		lo, hi := q.MinSize/unit, min(q.MaxSize, max(q.MinSize, most))/unit
		if hi < lo {
			break
		}
		m := unit * (lo + rng.Uint64N(hi-lo+1))
		l, err := q.NewLayout(m)
		if err != nil || m == 0 || l.Block%int64(elem) != 0 || r.EvenOnly && !l.Even() {
			continue
		}
		if out = append(out, m); len(out) == n {
			break
		}
	}
	return out
}
