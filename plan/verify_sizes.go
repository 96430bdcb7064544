package plan

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
)

// Bounds on the sizes that are examined to stand for all sizes. A plan that needs more is rejected: no size is skipped.
const (
	maxUnits      = 1 << 13 // chunk sizes, in units, whose slices are examined
	maxSliceRuns  = 64      // the same in plans with pipelines, where each size is a run
	maxIterations = 4096    // of a pipeline
)

// notExamined returns the error for a plan that is too large to examine.
func (p *Plan) notExamined(format string, args ...any) error {
	return fmt.Errorf("plan %s: %w: not examined, because %s", p.Name, ErrTooLarge, fmt.Sprintf(format, args...))
}

// sliceSizes returns the largest size of a chunk, in units, that must be examined: the sizes from lo to last together
// show every combination of slices that can contain a byte.
//
// Cut t of g over s chunks of c units lies at t·⌊cs/g⌋+min(t, cs mod g), which is within g/4 units of t·cs/g. Let G be
// the least common multiple of all g. From c = G·(g/4+1) on, cuts that differ as fractions of a chunk keep their order,
// and cuts that are equal as fractions differ by an amount that depends on c mod G alone. So all c below G·(g/4+2) are
// enough. If all ops cut one chunk into the same number of slices, one size is enough: one at which no slice is empty.
func sliceSizes(keys []partKey, lo, hi, most int64) (last int64, ok bool) {
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
	return last, last-lo < most
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// sliceShape returns the one shape of a plan without pipelines.
func (p *Plan) sliceShape(keys []partKey, lo, hi int64) ([]messageShape, error) {
	last, ok := sliceSizes(keys, lo, hi, maxUnits)
	if !ok {
		return nil, p.notExamined("its thread-block groups are of so many sizes that over %d sizes of a chunk divide "+
			"differently; use groups of equal sizes, or a smaller max_message_size", maxUnits)
	}
	sh := messageShape{alignment: p.Alignment, parts: map[partKey][]sub{}, iterations: func(*Op) int64 { return 1 }}
	seen := map[string]bool{}
	for c := lo; c <= last; c++ {
		for _, a := range cutAtoms(keys, c*p.Alignment, p.Alignment) {
			if sig := signature(keys, a, p.Alignment); !seen[sig] {
				seen[sig] = true
				sh.atoms = append(sh.atoms, a)
				sh.chunk = max(sh.chunk, a.chunk)
			}
		}
	}
	return []messageShape{sh}, nil
}

// pipelineShapes returns runs for the chunk sizes at which the behaviour of pipelines changes:
//
//  1. for each pipeline: the first sizes with as many iterations as the smallest message has, with one more, and with
//     more than any semaphore lets a thread block run ahead, after which the state repeats; with the last iteration
//     full, and not full
//  2. for each two pipelines: the first size at which one of them has more iterations than the other
//  3. all sizes that cut slices differently (sliceSizes)
func (p *Plan) pipelineShapes(keys []partKey, pipelines []*Op, lo, hi int64) ([]messageShape, error) {
	want := map[int64]bool{}
	add := func(units int64) { want[min(hi, max(lo, units))] = true }
	ahead := p.ahead()
	for i, op := range pipelines {
		unit := op.UnitSize / p.Alignment
		first := p.iterations(op, lo) // the minimum number of iterations
		for _, k := range []int64{first, first + 1, first + ahead + 1} {
			c := p.largest(op, k)
			add(c)
			add(c + 1)
		}
		for _, c := range []int64{1, unit / 2, unit, unit + 1} {
			add(c)
		}
		for _, other := range pipelines[:i] {
			c, found := p.apart(op, other, lo, hi)
			if !found {
				return nil, p.notExamined("two of its pipelines, over %d and %d bytes at a time, run differently often only "+
					"after more than %d iterations; give them the same unit_size and num_chunks, or the plan a smaller "+
					"max_message_size",
					op.UnitSize, other.UnitSize, maxIterations)
			}
			add(c)
		}
	}
	last, ok := sliceSizes(keys, lo, hi, maxSliceRuns)
	if !ok {
		return nil, p.notExamined("it has pipelines, and thread-block groups of so many sizes that over %d sizes of a "+
			"chunk divide differently; use groups of equal sizes", maxSliceRuns)
	}
	for c := lo; c <= last; c++ {
		add(c)
	}
	var out []messageShape
	for _, c := range slices.Sorted(maps.Keys(want)) {
		l := Layout{Chunk: c * p.Alignment, Alignment: p.Alignment}
		for _, op := range pipelines {
			if n := l.Iterations(op); n > maxIterations {
				return nil, p.notExamined("a pipeline over %d bytes at a time runs %d iterations when a chunk has %d bytes, a "+
					"size that must be looked at, and up to %d are; use a larger unit_size, or a smaller max_message_size",
					op.UnitSize, n, l.Chunk, maxIterations)
			}
		}
		out = append(out, messageShape{chunk: l.Chunk, atoms: cutAtoms(keys, l.Chunk, p.Alignment), alignment: p.Alignment,
			parts: map[partKey][]sub{}, iterations: l.Iterations})
	}
	return out, nil
}

// ahead returns how many iterations a semaphore may let a thread block run ahead.
func (p *Plan) ahead() int64 {
	most := int64(1)
	for r := range p.GPUs {
		for _, s := range p.GPUs[r].Semaphores {
			most = max(most, int64(s.InitValue))
		}
	}
	return most
}

func (p *Plan) iterations(op *Op, units int64) int64 {
	l := Layout{Chunk: units * p.Alignment}
	return l.Iterations(op)
}

// largest returns the size of the largest chunk, in units, for which op runs k iterations.
func (p *Plan) largest(op *Op, k int64) int64 {
	c, _ := mulDiv(op.UnitSize/p.Alignment, k, int64(op.NumChunks))
	return c
}

// together reports whether two pipelines have the same number of iterations for every message: their units are the same
// fraction of what they cover.
func (p *Plan) together(a, b *Op) bool {
	ah, al := bits.Mul64(uint64(a.NumChunks), uint64(b.UnitSize))
	bh, bl := bits.Mul64(uint64(b.NumChunks), uint64(a.UnitSize))
	return ah == bh && al == bl
}

// apart returns the smallest chunk size, in units from lo to hi, at which two pipelines have different numbers of
// iterations, or lo if there is none. found is false when no such size exists up to maxIterations iterations, but one
// may exist beyond.
func (p *Plan) apart(a, b *Op, lo, hi int64) (units int64, found bool) {
	first := p.iterations(a, lo)
	if first != p.iterations(b, lo) || p.together(a, b) {
		return lo, true
	}
	for k := max(1, first); k <= maxIterations; k++ {
		al, bl := p.largest(a, k), p.largest(b, k)
		switch {
		case min(al, bl) >= hi:
			return lo, true
		case al != bl:
			return min(al, bl) + 1, true
		}
	}
	return 0, false
}
