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

// shape of a message: how many iterations its pipelines run, and the atoms of its chunks.
type messageShape struct {
	chunk      int64 // bytes of a chunk; of the largest example when atoms come from several
	atoms      []atom
	parts      map[partKey][]sub
	alignment  int64
	iterations func(*Op) int64
}

// partKey is everything that decides which bytes of its operands an op touches.
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

const maxUnits = 4096 // chunk sizes in units that are examined to find the atoms of slices

// shapes chooses the message shapes that stand for every size from MinSize to MaxSize.
//
// Without slices and pipelines all offsets are alike: one atom. With slices, cut t of g over s chunks of c units lies at t·⌊cs/g⌋+min(t, cs mod g),
// which is within g/4 units of t·cs/g. Let G be the least common multiple of all g. From c = G·(g/4+1) on, cuts that differ as fractions of a
// chunk keep their order, and those that do not differ by an amount that depends on c mod G alone. So all c below G·(g/4+2) show every
// combination of slices that an offset can fall into; each becomes an atom, and all atoms are examined in one run.
//
// A pipeline's iterations change the order of synchronisation, so each examined message size is a run of its own: from one short iteration up
// to a few more than any semaphore lets a thread block run ahead. After that the state repeats.
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
			if s.Op.Name != Pipeline {
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
		return []messageShape{p.sliceShape(keys, lo, hi)}, nil
	}
	return p.pipelineShapes(keys, pipelines, lo, hi)
}

// unitRange is the smallest and the largest number of units in a chunk, over all accepted messages. A message of 0 bytes moves nothing.
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
		return 0, 0, &Violation{Kind: Unspecified, Plan: p.Name, Detail: fmt.Sprintf("no message of %d to %d bytes divides into %d chunks", p.MinSize, p.MaxSize, period)}
	}
	return lo, hi, nil
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func (p *Plan) sliceShape(keys []partKey, lo, hi int64) messageShape {
	g, widest := int64(1), int64(1)
	for _, k := range keys {
		if n := int64(k.slice.Count); n > 1 {
			g = min(g/gcd(g, n)*n, maxUnits)
			widest = max(widest, n)
		}
	}
	last := lo
	if g > 1 {
		last = min(hi, max(lo, g*(widest/4+1))+g-1, lo+maxUnits)
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
	return sh
}

func (p *Plan) pipelineShapes(keys []partKey, pipelines []*Op, lo, hi int64) ([]messageShape, error) {
	ahead := int64(1)
	for r := range p.GPUs {
		for _, s := range p.GPUs[r].Semaphores {
			ahead = max(ahead, int64(s.InitValue))
		}
	}
	ahead = min(ahead, 8)
	want := map[int64]bool{}
	add := func(bytes int64) {
		want[min(hi, max(lo, ceilDiv(bytes, p.Alignment)))] = true
	}
	for _, op := range pipelines {
		n, a := int64(op.NumChunks), p.Alignment
		for _, whole := range []int64{1, 2, ahead + 2} {
			add(op.UnitSize * whole / n)
			add(op.UnitSize*whole/n + a)
		}
		add(a)
		add(op.UnitSize / 2)
		add(op.UnitSize)
		add(op.UnitSize + a)
	}
	cs := make([]int64, 0, len(want))
	for c := range want {
		cs = append(cs, c)
	}
	slices.Sort(cs)
	var out []messageShape
	for _, c := range cs {
		chunk := c * p.Alignment
		most := int64(0)
		for _, op := range pipelines {
			most = max(most, ceilDiv(int64(op.NumChunks)*chunk, op.UnitSize))
		}
		if most > 4096 {
			if len(out) > 0 {
				continue
			}
			return nil, fmt.Errorf("plan %s: %w: a pipeline of at least %d iterations", p.Name, ErrTooLarge, most)
		}
		l := Layout{Chunk: chunk, Alignment: p.Alignment}
		out = append(out, messageShape{chunk: chunk, atoms: cutAtoms(keys, chunk, p.Alignment), alignment: p.Alignment, parts: map[partKey][]sub{}, iterations: l.Iterations})
	}
	return out, nil
}

// cutAtoms divides a chunk of the given size wherever some part of some op starts or ends.
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

// signature tells which slice of every part the atom falls into.
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

// part lists the atoms that an op touches in each of its operands, in address order.
func (sh *messageShape) part(k partKey) []sub {
	if subs, ok := sh.parts[k]; ok {
		return subs
	}
	subs := []sub{}
	for j := range k.size {
		for i, a := range sh.atoms {
			l := Layout{Chunk: a.chunk, Alignment: sh.alignment}
			lo, hi := l.Part(k.size, k.slice)
			if k.unit > 0 {
				lo, hi = Window(lo, hi, k.unit, k.iter)
			}
			if at := int64(j)*a.chunk + a.lo; at >= lo && at < hi {
				subs = append(subs, sub{int32(j), int32(i)})
			}
		}
	}
	sh.parts[k] = subs
	return subs
}
