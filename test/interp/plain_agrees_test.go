package interp_test

import (
	"bytes"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/programs"
	"github.com/goccl/goccl/plan/verify"
	"github.com/goccl/goccl/test/mutant"
)

// TestPlainCheckerAgrees: for small plans and their mutants, the verifier accepts what the plain checker finds no fault
// in for any sizes of a few units, and refuses the rest.
func TestPlainCheckerAgrees(t *testing.T) {
	n := 3
	if os.Getenv("GOCCL_FULL") != "" {
		n = 300
	}
	if *mutants > 0 {
		n = *mutants
	}
	right, wrong, skipped := 0, 0, 0
	try := func(name string, p *plan.Plan) {
		h := fnv.New64a()
		h.Write([]byte(name))
		rng := rand.New(rand.NewPCG(*seed, h.Sum64()))
		text := p.Encode()
		for i := range n {
			q, err := plan.Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			what := "as it is"
			if i > 0 {
				if what = mutant.Mutate(q, rng); what == "" || bytes.Equal(q.Encode(), text) ||
					q.Validate(&plan.Capacity) != nil {
					continue
				}
			}
			_, err = verify.Check(q, verify.Options{Whole: true})
			var v *verify.Violation
			if err != nil && (!errors.As(err, &v) || v.Kind == verify.Ambiguous || v.Kind == verify.Unverified) {
				skipped++
				continue
			}
			fault := smallFault(q)
			switch {
			case errors.Is(fault, errNotPlain):
				skipped++
			case (err == nil) != (fault == nil):
				t.Errorf("%s, mutant %d (%s): the verifier says: %v\nthe plain checker: %v", name, i, what, err, fault)
			case err == nil:
				right++
			default:
				wrong++
			}
		}
	}
	shipped(t, []programs.Options{{Ranks: 2, Instances: 1}, {Ranks: 3, Instances: 1}}, try)
	scripts(t, try)
	t.Logf("%d right and %d wrong plans on which both agree, %d beyond the plain checker", right, wrong, skipped)
	if right < 10 || wrong < 10 {
		t.Error("too few")
	}
}

// smallFault runs the plain checker for launches whose chunks have few units.
func smallFault(p *plan.Plan) error {
	var sizes []uint64
	for _, c := range []uint64{1, 2, 3, 5, 9} {
		sizes = append(sizes, c*p.EvenUnit())
	}
	for i, a := range sizes {
		b := sizes[(i+1)%len(sizes)]
		for _, list := range [][]uint64{{a, a, a}, {a, b, a}} {
			if err := plainCheck(p, list); err != nil {
				return err
			}
		}
	}
	return nil
}
