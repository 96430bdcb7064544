package interp

import "github.com/goccl/goccl/plan"

// hide puts junk where hooks guard input: a plan that reads it too early sees it.
func (r *rankState) hide(l *plan.Layout) {
	hooks := r.m.p.GPUs[r.rank].Hooks()
	if len(hooks) == 0 {
		return
	}
	r.fresh = append(r.fresh[:0], r.input...)
	for i := range hooks {
		h := &hooks[i]
		for k := h.Index; h.Takes() && k < h.Index+h.Size; k++ {
			at, n := l.Locate(k, 0)
			for x := range r.input[at : at+n] {
				r.input[at+int64(x)] = 0x5a
			}
		}
	}
}

// caller is a step of the caller at a hook: it writes a piece of input, or reads one of output.
func (m *machine) caller(p piece, launch int) {
	src := &p.move.Src[0]
	l, r := m.layouts[launch], m.ranks[src.Rank]
	at, n := l.Locate(src.Index+p.j, p.x)
	n = min(n, l.Alignment)
	if len(p.move.Dst) == 0 {
		m.bytes(src, p, launch, n, false)
		return
	}
	copy(m.bytes(&p.move.Dst[0], p, launch, n, true), r.fresh[at:at+n])
}
