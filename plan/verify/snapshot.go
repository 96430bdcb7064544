package verify

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"

	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/plan"
)

// digest identifies a state.
type digest [sha256.Size]byte

// snapshot writes a state up to renaming of phases: what the verifier does from a state on depends on the phases of a
// component only by comparing them, so the entries of all clocks are numbered in their order, and an access is given by
// the first entry that covers it. It makes two passes: the first collects the entries.
type snapshot struct {
	v       *verifier
	entries [][]uint32       // by orbit of components, sorted in the end
	seen    map[*page]bool   // pages that are collected
	texts   map[*page][]byte // pages that are written
	line    []byte
	out     hash.Hash // nil in the first pass
}

// write returns the digest of what state writes.
func (v *verifier) write(state func(*snapshot)) (*snapshot, digest) {
	s := &snapshot{v: v, entries: make([][]uint32, v.time.count), seen: map[*page]bool{}, texts: map[*page][]byte{}}
	for i := range s.entries {
		s.entries[i] = []uint32{0}
	}
	state(s)
	for i := range s.entries {
		slices.Sort(s.entries[i])
		s.entries[i] = slices.Compact(s.entries[i])
	}
	s.out = sha256.New()
	state(s)
	return s, s.sum()
}

func (v *verifier) snapshot(t *tick) {
	s, core := v.write(func(s *snapshot) {
		s.state()
		s.memory(t)
	})
	t.core, t.seen = core, true
	t.windows = make([]digest, v.shape.at(t.launch).n[t.class])
	for w := range t.windows {
		s.cells(func(c, atom int) bool { return c == t.class && v.shape.atoms[atom].window == w })
		t.windows[w] = s.sum()
	}
	for _, b := range v.blocks {
		if b.launch != t.launch || b.done || b.ended || b.pc >= len(b.program) {
			continue
		}
		if u := &b.program[b.pc]; u.loop != nil && u.iter > 0 && v.shape.loops.class[u.loop.Op] == t.class &&
			!slices.ContainsFunc(t.blocks, func(o stopped) bool { return o.block == b.id }) {
			t.stuck = true
		}
	}
}

func (s *snapshot) sum() (d digest) {
	s.out.Sum(d[:0])
	s.out.Reset()
	return d
}

func (s *snapshot) num(list ...int) {
	if s.out == nil {
		return
	}
	s.line = s.line[:0]
	for _, n := range list {
		s.line = binary.AppendVarint(s.line, int64(n))
	}
	_, _ = s.out.Write(s.line) // a hash returns no error
}

func (s *snapshot) flag(list ...bool) {
	for _, on := range list {
		s.num(plain.Bit[int](on))
	}
}

func (s *snapshot) clock(k *clock) {
	if k == nil {
		s.num(-1)
		return
	}
	s.pages(k.d)
	s.pages(k.c)
}

// pages collects or writes the entries of a clock: for each orbit how often each number follows itself.
func (s *snapshot) pages(pages []*page) {
	for i, p := range pages {
		switch {
		case s.out == nil && p == nil: // every orbit has an entry 0
		case s.out == nil && !s.seen[p]:
			s.seen[p] = true
			s.runs(i, p, func(orbit int, x uint32, _ int) {
				if e := s.entries[orbit]; len(e) == 0 || e[len(e)-1] != x {
					s.entries[orbit] = append(e, x)
				}
			})
		case s.out != nil && p == nil:
			s.num(-1)
		case s.out != nil:
			text, ok := s.texts[p]
			if !ok {
				s.runs(i, p, func(orbit int, x uint32, n int) {
					at, _ := slices.BinarySearch(s.entries[orbit], x)
					text = binary.AppendUvarint(binary.AppendUvarint(text, uint64(at)), uint64(n))
				})
				if len(text) > sha256.Size {
					short := sha256.Sum256(text)
					text = short[:]
				}
				s.texts[p] = text
			}
			_, _ = s.out.Write(text)
		}
	}
}

// runs visits the entries of a page, orbit by orbit, equal neighbours at once.
func (s *snapshot) runs(number int, p *page, f func(orbit int, x uint32, n int)) {
	t := s.v.time
	next := 0 // of p.odd
	for first := 0; first < t.page; first += t.order {
		orbit := number*(t.page/t.order) + first/t.order
		if orbit >= t.count {
			return
		}
		x, n := uint32(0), 0
		add := func(y uint32, more int) {
			if more == 0 {
				return
			}
			if n > 0 && y != x {
				f(orbit, x, n)
				n = 0
			}
			x, n = y, n+more
		}
		at := first
		for ; next < len(p.odd) && int(p.odd[next].at) < first+t.order; next++ {
			add(p.base, int(p.odd[next].at)-at)
			add(p.odd[next].x, 1)
			at = int(p.odd[next].at) + 1
		}
		add(p.base, first+t.order-at)
		f(orbit, x, n)
	}
}

// entry is a phase that a clock may get: the present one of a component.
func (s *snapshot) entry(comp int, x uint32) {
	if s.out == nil {
		orbit := s.v.time.orbit(comp)
		s.entries[orbit] = append(s.entries[orbit], x)
	}
}

func (s *snapshot) stamp(t stamp) {
	if s.out == nil {
		return
	}
	if t.comp < 0 {
		s.num(-1)
		return
	}
	s.num(int(t.comp), s.after(int(t.comp), t.t))
}

// after returns the number of the first entry of the component's orbit that covers phase t.
func (s *snapshot) after(comp int, t uint32) int {
	at, found := slices.BinarySearch(s.entries[s.v.time.orbit(comp)], t)
	if found {
		at++
	}
	return at
}

// state writes all state except the cells.
func (s *snapshot) state() {
	v := s.v
	for _, b := range v.blocks {
		s.block(b)
	}
	for i := range v.counters {
		if c := &v.counters[i]; c.used() {
			s.num(i)
			s.counter(c)
		}
	}
	for _, id := range v.barrierIDs() {
		s.num(len(v.barriers[id].arrived))
		s.num(slices.Sorted(slices.Values(v.barriers[id].arrived))...)
	}
	for r := range v.began {
		if v.quotient.own(r) {
			s.clock(v.began[r])
			s.num(v.launched[r], v.running[r])
			s.entry(v.caller+r, uint32(v.launched[r]))
		}
	}
	for _, t := range v.gate.turns {
		s.num(t.rank)
		s.clock(t.k)
	}
	for i := range v.scratch {
		s.plane(&v.scratch[i])
	}
	for i := 0; i < len(v.ports); i += v.quotient.order() { // images have no transfers
		s.port(i)
	}
}

// memory writes all cells except the windows of the class of t.
func (s *snapshot) memory(t *tick) {
	v := s.v
	s.cells(func(c, _ int) bool { return c != t.class })
	for _, at := range slices.Sorted(maps.Keys(v.repeated)) {
		s.num(at)
		for _, a := range v.repeated[at] {
			s.stamp(a.stamp)
		}
	}
}

func (s *snapshot) block(b *blockState) {
	if !s.v.quotient.own(b.rank) { // the block that stands for it has its state
		return
	}
	s.num(b.launch, len(b.pending))
	s.flag(b.done, b.ended, b.meeting, b.arrived, b.entry)
	if !b.done && b.pc < len(b.program) {
		u := &b.program[b.pc]
		s.num(u.step.Pos.Op, u.step.Pos.Inner, int(u.step.Does))
	}
	s.entry(b.id, b.phase)
	s.clock(b.base)
	for _, thread := range slices.Sorted(maps.Keys(b.threads)) {
		k := s.v.newClock()
		for _, o := range b.threads[thread] {
			k.learn(o)
		}
		s.num(thread)
		s.clock(k)
	}
	k := s.v.newClock()
	for _, o := range b.packets {
		k.learnControl(o)
	}
	s.clock(k)
}

func (s *snapshot) counter(c *counter) {
	s.num(c.total+c.init-c.waits, c.consumer, c.thread)
	if c.consumer >= 0 {
		s.stamp(stamp{int32(c.consumer), c.phase})
	}
	for i := range c.arrivals {
		a := &c.arrivals[i]
		s.num(a.from, a.nth-c.waits, int(a.at.launch))
		s.clock(a.knows)
	}
}

func (s *snapshot) plane(p *planeState) {
	s.num(int(p.launch))
	for _, uses := range []map[int32]usage{p.before.reads, p.before.writes, p.now.reads, p.now.writes} {
		s.num(len(uses))
		for _, comp := range slices.Sorted(maps.Keys(uses)) {
			s.stamp(uses[comp].last.stamp)
		}
	}
	byNumbers := func(a, b [2]int32) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) }
	for _, who := range slices.SortedFunc(maps.Keys(p.checked), byNumbers) {
		s.num(int(who[0]), int(who[1]), int(p.checked[who]))
	}
}

// port writes the transfers of a port channel, equal neighbours once: the number that a clock covers grows past all of
// them or none. The thread that pushed one matters only in the phase that its block is in (portClock): after that all
// threads of the block know of it, and others never ask.
func (s *snapshot) port(i int) {
	v := s.v
	pt := &v.ports[i]
	s.entry(v.reader(i), uint32(len(pt.pushes)))
	s.entry(v.writer(i), uint32(len(pt.pushes)))
	if s.out == nil {
		return
	}
	last := [4]int{}
	for n, q := range pt.pushes {
		this := [4]int{s.after(v.reader(i), uint32(n)), s.after(v.writer(i), uint32(n)), s.after(pt.block, q.phase), -1}
		if q.phase == v.blocks[pt.block].phase {
			this[3] = q.thread
		}
		if n == 0 || this != last {
			s.num(this[:]...)
			last = this
		}
	}
	s.num(-1)
}

// cells writes the cells for which in holds: the class of pipelines that divides their chunk, or -1, and their atom.
func (s *snapshot) cells(in func(class, atom int) bool) {
	v := s.v
	for r := range v.planes {
		for pl := range plan.NumPlanes {
			for k := range v.chunks[r][pl] {
				class := v.classOf(r, pl, k)
				at := v.planes[r][pl] + k*len(v.shape.atoms)
				for a := range v.shape.atoms {
					if in(class, a) {
						s.cell(&v.cells[at+a])
					}
				}
			}
		}
	}
}

func (s *snapshot) cell(c *cell) {
	s.num(int(c.value), int(c.flag), len(c.reads))
	s.flag(c.read)
	s.stamp(c.write.stamp)
	s.clock(c.carries)
	reads := c.reads
	if s.out != nil && len(reads) > 1 {
		reads = slices.Clone(reads)
		slices.SortFunc(reads, func(a, b access) int { return cmp.Or(cmp.Compare(a.comp, b.comp), cmp.Compare(a.t, b.t)) })
	}
	for i := range reads {
		s.stamp(reads[i].stamp)
	}
}
