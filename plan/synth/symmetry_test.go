package synth

import (
	"testing"

	"github.com/goccl/goccl/plan/internal/sets"
)

// All ranks of an example topology are equivalent, except the pair with the broken link. The orbits of pairs show that
// the subgroup that fixes a rank is as large as it should be.
func TestSymmetry(t *testing.T) {
	for _, c := range []struct {
		name         string
		ranks, pairs int // orbits
	}{
		{"ring-6", 1, 3}, {"pcie-8", 1, 2}, {"broken-nvlink", 2, 4}, {"dgx-h100x2", 1, 3}, {"dgx-h100x4", 1, 3},
		{"dgx-h100x16", 1, 3},
	} {
		g := example(t, c.name)
		s := newSymmetry(g)
		n := g.Ranks()
		ranks, pairs := sets.New(n), sets.New(n*n)
		for _, p := range s.generators {
			for a := range n {
				ranks.Join(a, p[a])
				for b := range n {
					pairs.Join(a*n+b, p[a]*n+p[b])
				}
			}
		}
		count := func(o sets.Sets, is func(x int) bool) (k int) {
			for x := range o {
				if o.Of(x) == x && is(x) {
					k++
				}
			}
			return k
		}
		r := count(ranks, func(int) bool { return true })
		p := count(pairs, func(x int) bool { return x/n != x%n })
		if r != c.ranks || p != c.pairs {
			t.Errorf("%s: %d orbits of ranks and %d of pairs, want %d and %d; %d generators", c.name, r, p, c.ranks, c.pairs,
				len(s.generators))
		}
	}
}
