package plan

import (
	"fmt"
	"slices"
	"strconv"
)

// atom is a range of offsets within a chunk that every op treats alike. lo, hi and chunk are an example in bytes.
type atom struct {
	lo, hi, chunk int64
}

// messageShape is the shape of a message: how many iterations its pipelines run, and the atoms of its chunks.
type messageShape struct {
	chunk      int64 // bytes of a chunk; of the largest example when the atoms come from several
	atoms      []atom
	parts      map[partKey][]sub
	alignment  int64
	iterations func(*Op) int64
}

// partKey determines which bytes of its operands an op accesses.
type partKey struct {
	size  int
	slice Slice
	unit  int64
	iter  int
}

// sub is one atom of one chunk of an operand.
type sub struct {
	chunk int32
	atom  int32
}

// shapes chooses the message shapes that stand for every size from MinSize to MaxSize (see verify_sizes.go).
//
// Without pipelines there is one shape, whose atoms come from all sizes. The number of iterations of a pipeline changes
// the order of synchronization, so with pipelines each size is a separate run.
func (p *Plan) shapes(r *resolved) ([]messageShape, error) {
	parts := map[partKey]bool{}
	units := map[int64]bool{}
	var pipelines []*Op
	for _, prog := range r.programs {
		for i := range prog {
			s := &prog[i]
			for _, m := range s.Moves {
				parts[partKey{size: m.Src[0].Size, slice: Slice{Count: s.Op.Slice.Count}}] = true
			}
			if !s.Does.Has(Loops) {
				continue
			}
			pipelines = append(pipelines, s.Op)
			units[s.Op.UnitSize] = true
			for j := range s.Body {
				for _, m := range s.Body[j].Moves {
					parts[partKey{size: m.Src[0].Size, slice: Slice{Count: s.Body[j].Op.Slice.Count}, unit: s.Op.UnitSize}] = true
				}
			}
		}
	}
	keys := make([]partKey, 0, len(parts))
	for k := range parts {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b partKey) int {
		if a.size != b.size {
			return a.size - b.size
		}
		if a.slice.Count != b.slice.Count {
			return a.slice.Count - b.slice.Count
		}
		return int(a.unit - b.unit)
	})
	lo, hi, err := p.unitRange()
	if err != nil {
		return nil, err
	}
	if len(pipelines) == 0 {
		return p.sliceShape(keys, lo, hi)
	}
	return p.pipelineShapes(keys, pipelines, lo, hi)
}

// unitRange returns the smallest and the largest number of units in a chunk, over all accepted messages. A message of 0
// bytes moves no data.
func (p *Plan) unitRange() (lo, hi int64, err error) {
	blocks, period, custom := p.blocks()
	in := func(size uint64) int64 {
		size = min(size, 1<<61)
		block := ceilDiv(int64(size), int64(blocks))
		return ceilDiv(ceilDiv(block, p.Alignment), int64(period))
	}
	lo, hi = max(1, in(p.MinSize)), max(1, in(p.MaxSize))
	if custom {
		hi = int64(min(p.MaxSize, 1<<61)) / (int64(period) * p.Alignment)
	}
	if lo > hi {
		return 0, 0, &Violation{Kind: Unspecified, Plan: p.Name,
			Detail: fmt.Sprintf("no message of %d to %d bytes divides into %d chunks", p.MinSize, p.MaxSize, period)}
	}
	return lo, hi, nil
}

// cutAtoms divides a chunk of the given size at every start and end of a part of an op.
func cutAtoms(keys []partKey, chunk, alignment int64) []atom {
	l := Layout{Chunk: chunk, Alignment: alignment}
	cuts := []int64{0, chunk}
	cut := func(at int64) {
		if x := at % chunk; x != 0 {
			cuts = append(cuts, x)
		}
	}
	for _, k := range keys {
		for t := range max(1, k.slice.Count) {
			lo, hi := l.Part(k.size, Slice{t, k.slice.Count})
			cut(lo)
			cut(hi)
			for at := lo; k.unit > 0 && at < hi; at += k.unit {
				cut(at)
			}
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	atoms := make([]atom, len(cuts)-1)
	for i := range atoms {
		atoms[i] = atom{cuts[i], cuts[i+1], chunk}
	}
	return atoms
}

// signature identifies the slice of every part that contains the atom.
func signature(keys []partKey, a atom, alignment int64) string {
	l := Layout{Chunk: a.chunk, Alignment: alignment}
	var b []byte
	for _, k := range keys {
		if k.slice.Count <= 1 {
			continue
		}
		t := 0
		for j := range k.size {
			at := int64(j)*a.chunk + a.lo
			for {
				if lo, hi := l.Part(k.size, Slice{t, k.slice.Count}); at >= lo && at < hi {
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
		for i, a := range sh.atoms {
			l := Layout{Chunk: a.chunk, Alignment: sh.alignment}
			lo, hi := l.Range(k.size, k.slice, k.unit, k.iter)
			if at := int64(j)*a.chunk + a.lo; at >= lo && at < hi {
				subs = append(subs, sub{int32(j), int32(i)})
			}
		}
	}
	sh.parts[k] = subs
	return subs
}
