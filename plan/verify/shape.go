package verify

import (
	"cmp"
	"slices"
	"strconv"

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
	var note func(steps []plan.Step)
	note = func(steps []plan.Step) {
		for i := range steps {
			for _, m := range steps[i].Moves {
				parts[partKey{size: m.Src[0].Size, slice: plan.Slice{Count: steps[i].Op.Slice.Count}}] = true
			}
			note(steps[i].Body)
		}
	}
	for _, prog := range r.programs {
		note(prog)
	}
	keys := make([]partKey, 0, len(parts))
	for k := range parts {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b partKey) int {
		return cmp.Or(a.size-b.size, a.slice.Count-b.slice.Count)
	})
	return keys
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
