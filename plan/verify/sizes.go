package verify

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccl/goccl/plan"
)

// maxUnits bounds the chunk sizes, in units, whose slices are examined to stand for all sizes. A plan that needs more
// is rejected: no size is skipped.
const maxUnits = 1 << 13

// notExamined returns the error for a plan that is too large to examine.
func notExamined(p *plan.Plan, format string, args ...any) error {
	return fmt.Errorf("plan %s: %w: not examined, because %s", p.Name, ErrTooLarge, fmt.Sprintf(format, args...))
}

// sliceSizes returns the largest size of a chunk, in units, that must be examined: the sizes from lo to last together
// show every combination of slices that can contain a byte.
//
// Cut t of g over s chunks of c units lies at t·⌊cs/g⌋+min(t, cs mod g), which is within g/4 units of t·cs/g. Let G be
// the least common multiple of all g. From c = G·(g/4+1) on, cuts that differ as fractions of a chunk keep their order,
// and cuts that are equal as fractions differ by an amount that depends on c mod G alone. So all c below G·(g/4+2) are
// enough. If all ops cut one chunk into the same number of slices, one size is enough: one at which no slice is empty.
func sliceSizes(keys []partKey, lo, hi int64) (last int64, ok bool) {
	g, widest, alike, cut := int64(1), int64(1), true, partKey{}
	for _, k := range keys {
		n := int64(k.slice.Count)
		if n <= 1 {
			continue
		}
		alike = alike && k.size == 1 && (cut.size == 0 || cut.slice.Count == k.slice.Count)
		cut = k
		widest = max(widest, n)
		if g <= maxUnits { // g only grows
			g = g / gcd(g, n) * n
		}
	}
	switch {
	case g == 1:
		return lo, true
	case alike:
		return min(hi, max(lo, widest)), true
	}
	last = min(hi, max(lo, g*(widest/4+1))+g-1)
	return last, last-lo < maxUnits
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// sliceAtoms returns the atoms of all chunks of lo to hi units, without regard to windows, and which of them chunks of
// one size have: each set of atoms that some size has, once.
func sliceAtoms(p *plan.Plan, keys []partKey, lo, hi int64) (atoms []atom, sets [][]bool, err error) {
	last, ok := sliceSizes(keys, lo, hi)
	if !ok {
		return nil, nil, notExamined(p, "its thread-block groups are of so many sizes that over %d sizes of a chunk divide "+
			"differently; use groups of equal sizes, or a smaller max_message_size", maxUnits)
	}
	at, known := map[string]int{}, map[string]bool{}
	for c := lo; c <= last; c++ {
		var here []bool
		for _, a := range cutAtoms(keys, c*p.Alignment, p.Alignment) {
			sig := signature(keys, a, p.Alignment)
			if _, seen := at[sig]; !seen {
				at[sig] = len(atoms)
				atoms = append(atoms, a)
			}
			here = append(here, make([]bool, len(atoms)-len(here))...)
			here[at[sig]] = true
		}
		if key := strings.TrimRight(fmt.Sprint(here), " false]"); !known[key] {
			known[key] = true
			sets = append(sets, here)
		}
	}
	for i := range sets {
		sets[i] = append(sets[i], make([]bool, len(atoms)-len(sets[i]))...)
	}
	for i := range atoms {
		atoms[i].always = !slices.ContainsFunc(sets, func(set []bool) bool { return !set[i] })
	}
	return atoms, sets, nil
}

func iterations(p *plan.Plan, op *plan.Op, units int64) int64 {
	l := plan.Layout{Chunk: units * p.Alignment}
	return l.Iterations(op)
}
