package verify

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccl/goccl/plan"
)

// atom is a set of bytes of a chunk that every op treats the same: they lie in the same slice of every op, and in the
// same window of the pipelines that divide their chunk. lo, hi and chunk are an example in bytes.
type atom struct {
	lo, hi, chunk int64
	always        bool // chunks of every size have such bytes
	window        int
}

// messageShape is the shape of consecutive messages: the atoms of their chunks, and how often their pipelines run.
type messageShape struct {
	chunk     int64 // bytes of a chunk; of the largest example when the atoms come from several
	atoms     []atom
	parts     map[partKey][]sub
	alignment int64
	loops     *loops
	fixed     bool    // all messages have one size
	turns     []turns // by launch; the last one holds for all further launches

	// By launch, the atoms that its message has; nil if that is left open: then a packet of an atom that some messages do
	// not have passes on its payload only.
	present [][]bool
}

// partKey determines which bytes of its operands an op accesses.
type partKey struct {
	size   int
	slice  plan.Slice
	iter   int   // of a pipeline; -1 outside
	until  int64 // outside: windows of the operands
	launch int   // if launches have different atoms
}

// sub is one atom of one chunk of an operand.
type sub struct {
	chunk int32
	atom  int32
}

// sliceKeys lists the ways in which ops cut their operands into slices.
func sliceKeys(r *resolved) []partKey {
	parts := map[partKey]bool{}
	for _, prog := range r.programs {
		for s, m := range plan.EachMove(prog) {
			parts[partKey{size: m.Src[0].Size, slice: plan.Slice{Count: s.Op.Slice.Count}}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(parts), func(a, b partKey) int {
		return cmp.Or(a.size-b.size, a.slice.Count-b.slice.Count)
	})
}

// cutAtoms divides a chunk of the given size at every start and end of a part of an op.
func cutAtoms(keys []partKey, chunk, alignment int64) []atom {
	l := plan.Layout{Chunk: chunk, Alignment: alignment}
	cuts := []int64{0, chunk}
	cut := func(at int64) {
		if x := at % chunk; x != 0 {
			cuts = append(cuts, x)
		}
	}
	for _, k := range keys {
		for t := range max(1, k.slice.Count) {
			lo, hi := l.Part(k.size, plan.Slice{Index: t, Count: k.slice.Count})
			cut(lo)
			cut(hi)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	atoms := make([]atom, len(cuts)-1)
	for i := range atoms {
		atoms[i] = atom{lo: cuts[i], hi: cuts[i+1], chunk: chunk}
	}
	return atoms
}

// signature identifies the slice of every part that contains the atom.
func signature(keys []partKey, a atom, alignment int64) string {
	l := plan.Layout{Chunk: a.chunk, Alignment: alignment}
	var b []byte
	for _, k := range keys {
		if k.slice.Count <= 1 {
			continue
		}
		t := 0
		for j := range k.size {
			at := int64(j)*a.chunk + a.lo
			for {
				if lo, hi := l.Part(k.size, plan.Slice{Index: t, Count: k.slice.Count}); at >= lo && at < hi {
					break
				}
				t++
			}
			b = strconv.AppendInt(append(b, ' '), int64(t), 10)
		}
	}
	return string(b)
}

// part returns the atoms that an op accesses in each of its operands, in address order.
func (sh *messageShape) part(k partKey) []sub {
	if subs, ok := sh.parts[k]; ok {
		return subs
	}
	subs := []sub{}
	for j := range k.size {
		for i := range sh.atoms {
			a := &sh.atoms[i]
			l := plan.Layout{Chunk: a.chunk, Alignment: sh.alignment}
			lo, hi := l.Part(k.size, k.slice)
			in := a.window == k.iter || k.iter < 0 && int64(a.window) < k.until
			if at := int64(j)*a.chunk + a.lo; in && at >= lo && at < hi && sh.has(i, k.launch) {
				subs = append(subs, sub{int32(j), int32(i)})
			}
		}
	}
	sh.parts[k] = subs
	return subs
}

// has reports whether the message of a launch may have an atom.
func (sh *messageShape) has(atom, launch int) bool {
	return sh.present == nil || sh.present[launch][atom]
}

// windows returns the number of windows of a chunk of class c in a launch. Chunks that no pipeline touches (-1) have
// one.
func (sh *messageShape) windows(c, launch int) int64 {
	if c < 0 {
		return 1
	}
	return sh.at(launch).n[c]
}

// at returns how often pipelines run in a launch.
func (sh *messageShape) at(launch int) *turns { return &sh.turns[min(launch, len(sh.turns)-1)] }

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
