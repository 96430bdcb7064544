package verify

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goccl/goccl/plan/symmetry"
)

// TestPagesAreLists compares clocks in pages with plain lists of all entries, under random sets, joins, renamings and
// comparisons.
func TestPagesAreLists(t *testing.T) {
	for _, order := range []int{1, 2, 5, 64, 100} {
		turn := make([]int32, order) // the cyclic group
		for r := range turn {
			turn[r] = int32((r + 1) % order)
		}
		s := symmetry.Generate([]*symmetry.Renaming{{Ranks: turn}})
		if s == nil || s.Order() != order {
			t.Fatal("no group of ", order)
		}
		rng := rand.New(rand.NewPCG(uint64(order), 1))
		const orbits = 70
		l := &timeline{order: order, count: orbits, page: max(1, minPage/order) * order}
		l.pages = (orbits*order + l.page - 1) / l.page
		l.place = make([]int32, orbits*order) // every component is a thread block
		for i := range l.place {
			l.place[i] = int32(i)
		}
		comparePages(t, l, s, rng)
	}
}

func comparePages(t *testing.T, l *timeline, s *symmetry.Group, rng *rand.Rand) {
	type twin struct {
		k    *clock
		d, c []uint32
	}
	n := l.count * l.order
	zero := make([]*page, l.pages)
	all := []twin{{&clock{t: l, d: zero, c: zero, one: true, owner: -1}, make([]uint32, n), make([]uint32, n)}}
	join := func(a, b []uint32) []uint32 {
		out := slices.Clone(a)
		for i, x := range b {
			out[i] = max(out[i], x)
		}
		return out
	}
	below := func(a, b []uint32) bool { return slices.Equal(join(a, b), b) }
	for range 400 {
		a, b := all[rng.IntN(len(all))], all[rng.IntN(len(all))]
		k := twin{a.k.mutable(), slices.Clone(a.d), slices.Clone(a.c)}
		switch rng.IntN(6) {
		case 0:
			k.k.learn(b.k)
			k.d, k.c = join(k.d, b.d), join(k.c, b.c)
		case 1:
			k.k.learnControl(b.k)
			k.c = join(k.c, b.c)
		case 2: // most of an orbit gets one number
			first, x := rng.IntN(l.count)*l.order, rng.Uint32N(4)
			for i := first; i < first+l.order; i++ {
				if rng.IntN(8) > 0 {
					k.k.set(i, x)
					k.d[i], k.c[i] = max(k.d[i], x), max(k.c[i], x)
				}
			}
		case 3:
			g := int32(rng.IntN(s.Order()))
			k.k = &clock{t: l, d: l.image(s, g, a.k.d), one: a.k.one, owner: -1}
			if k.k.c = k.k.d; !a.k.one {
				k.k.c = l.image(s, g, a.k.c)
			}
			for slot := range n {
				k.d[slot], k.c[slot] = a.d[l.imageOf(s, g, slot)], a.c[l.imageOf(s, g, slot)]
				to := slot - slot%l.order + int(s.Mul(g, int32(slot%l.order)))
				if l.imageOf(s, g, to) != slot {
					t.Fatalf("element %d takes %d to %d, and %d comes from %d", g, slot, to, to, l.imageOf(s, g, to))
				}
			}
		default:
			i, x := rng.IntN(n), rng.Uint32N(9)
			k.k.set(i, x)
			k.d[i], k.c[i] = max(k.d[i], x), max(k.c[i], x)
		}
		for i := range n {
			if k.k.visible(i) != k.d[i] || k.k.completed(i) != k.c[i] {
				t.Fatalf("order %d: entry %d is %d and %d, not %d and %d", l.order, i, k.k.visible(i), k.k.completed(i), k.d[i],
					k.c[i])
			}
		}
		if got := l.covers(k.k.d, b.k.d); got != below(b.d, k.d) {
			t.Fatalf("order %d: covers says %v", l.order, got)
		}
		if len(all) < 12 {
			all = append(all, k)
		} else {
			all[1+rng.IntN(11)] = k
		}
	}
	for _, k := range all { // no clock has changed after it was shared
		for i := range n {
			if k.k.visible(i) != k.d[i] || k.k.completed(i) != k.c[i] {
				t.Fatalf("order %d: a shared clock has changed at %d", l.order, i)
			}
		}
	}
}
