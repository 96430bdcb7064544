package verify

import (
	"slices"
	"unsafe"

	"github.com/goccl/goccl/plan/symmetry"
)

// timing is what happens before what. No entry of a clock is above the number of phases that its component has
// completed, and no clock changes once another clock, a counter or a cell has it.
type timing struct {
	time      *timeline
	ports     []port         // each has two components, see reader
	portOf    map[[2]int]int // by thread block and link: the port
	linkPorts map[int][]int  // by link: its ports
	caller    int            // component of the caller of rank 0
	began     []*clock       // by rank: the clock at the start of the running launch
	joined    map[[2]*clock]*clock
}

// clock is a vector clock: for every component, how many of its phases happen before this point. Components are the
// thread blocks, the port channels that carry transfers (one per thread block and channel that it pushes to), and the
// callers, one per rank.
//
// A phase of a thread block ends where all its threads synchronize (nop, barrier, end of a launch). A clock covers an
// access in phase n when the entry of its component is above n. The phases of a port channel are its transfers, those
// of a caller its turns between launches.
//
// There are two orders. Phases in d have completed and are visible: their writes can be read. Phases in c have
// completed but may not be visible: their sources may be overwritten. c includes d. Signals, semaphores and barriers
// pass on both. A packet passes on only c: its arrival proves that its writer has reached that point, but it does not
// order any of the writer's other stores.
//
// A clock does not change after it is shared, so sharing needs no copy.
type clock struct {
	t     *timeline
	d, c  []*page   // c is d until the two differ
	one   bool      // they are the same
	owner int       // component whose clock this is at the end of its phase, or -1
	phase uint32    // a clock with owner at phase includes all of this clock
	over  movements // of phases that c does not cover yet
}

// newClock returns a clock that covers nothing.
func (v *verifier) newClock() *clock {
	pages := make([]*page, v.time.pages)
	return &clock{t: v.time, d: pages, c: pages, one: true, owner: -1}
}

// visible and completed return how many phases of a component the clock covers in each order.
func (k *clock) visible(comp int) uint32   { return k.t.get(k.d, k.t.slot(comp)) }
func (k *clock) completed(comp int) uint32 { return k.t.get(k.c, k.t.slot(comp)) }

// mutable returns a copy that the caller may change before sharing it.
func (k *clock) mutable() *clock {
	n := &clock{t: k.t, d: slices.Clone(k.d), one: k.one, owner: -1, over: k.over}
	if n.c = n.d; !k.one {
		n.c = slices.Clone(k.c)
	}
	return n
}

// split gives c its own storage, before c gets entries that d does not have.
func (k *clock) split() {
	if k.one {
		k.c, k.one = slices.Clone(k.d), false
	}
}

// learn joins o into k, which must be mutable.
func (k *clock) learn(o *clock) {
	if o.owner >= 0 && k.visible(o.owner) >= o.phase {
		return
	}
	if !o.one {
		k.split()
	}
	k.t.raise(k.d, o.d)
	if !k.one {
		k.t.raise(k.c, o.c)
	}
	k.over = k.over.union(o.over)
}

// learnControl joins o into k's completed phases (c), not into its visible ones (d).
func (k *clock) learnControl(o *clock) {
	if o.owner >= 0 && k.completed(o.owner) >= o.phase {
		return
	}
	k.split()
	k.t.raise(k.c, o.c)
	k.over = k.over.union(o.over)
}

// set records that the phases of component i below phase have completed and are visible.
func (k *clock) set(i int, phase uint32) {
	k.t.set(k.d, k.t.slot(i), phase)
	if !k.one {
		k.t.set(k.c, k.t.slot(i), phase)
	}
}

// port is the sequence of transfers that one thread block pushed into one port channel.
type port struct {
	block  int
	link   int
	pushes []push
}

type push struct {
	phase  uint32
	thread int
}

// reader and writer return the components of a port: its transfers as readers of their sources, which a flush waits
// for, and as writers of their destinations, which only what follows them in the channel waits for.
func (v *verifier) reader(port int) int { return v.caller + len(v.p.GPUs) + 2*port }
func (v *verifier) writer(port int) int { return v.reader(port) + 1 }

// A clock keeps its entries in pages. An orbit is the components that a symmetry takes to each other: a thread block of
// a representative and its images, say. The entries of an orbit are neighbours, by element, and mostly equal: a page
// has one number and the entries that differ from it. A renaming moves entries within their page, and only those that
// differ.

// timeline says where the entries of components are.
type timeline struct {
	order int     // elements of the symmetry
	page  int     // entries of a page
	place []int32 // of thread blocks and callers: orbit · order + element
	fixed int     // orbits of these
	count int     // all orbits
	pages int
	odd   []odd // for join
}

// page is the entries of some orbits. It does not change. A nil page has zeros.
type page struct {
	base uint32
	odd  []odd // the entries that differ from base, in order
}

type odd struct{ at, x uint32 }

// minPage is the least number of entries of a page: small orbits share one.
const minPage = 64

// layClocks gives every component its place. The ports are numbered.
func (v *verifier) layClocks() {
	t := &timeline{order: v.quotient.order()}
	orbits := map[[2]int]int32{} // by representative, and block or -1 for the caller
	add := func(rank, block int) {
		key := [2]int{v.quotient.standIn(rank), block}
		at, ok := orbits[key]
		if !ok {
			at = int32(len(orbits))
			orbits[key] = at
		}
		g := int32(0)
		if v.quotient != nil {
			g = v.quotient.Frame(rank)
		}
		t.place = append(t.place, at*int32(t.order)+g)
	}
	for id, rank := range v.rankOf {
		add(rank, id-v.first[rank])
	}
	for rank := range v.p.GPUs {
		add(rank, -1)
	}
	t.fixed = len(orbits)
	t.count = t.fixed + 2*len(v.ports)/t.order
	all := t.count * t.order
	t.page = max(1, minPage/t.order) * t.order
	t.pages = (all + t.page - 1) / t.page
	v.time = t
}

// slot returns the place of a component's entry among all.
func (t *timeline) slot(comp int) int {
	if comp < len(t.place) {
		return int(t.place[comp])
	}
	port, side := (comp-len(t.place))/2, (comp-len(t.place))%2
	return (t.fixed+port/t.order*2+side)*t.order + port%t.order
}

// orbit returns the orbit of a component.
func (t *timeline) orbit(comp int) int { return t.slot(comp) / t.order }

// bytes estimates the memory of a clock.
func (t *timeline) bytes() int64 {
	differ := t.order
	if t.order == 1 { // nothing makes entries equal
		differ = t.count
	}
	return int64(t.pages)*int64(unsafe.Sizeof(t.odd)) + int64(differ)*int64(unsafe.Sizeof(odd{}))
}

// get returns an entry.
func (t *timeline) get(pages []*page, slot int) uint32 {
	p, at := pages[slot/t.page], slot%t.page
	if p == nil {
		return 0
	}
	if i, found := slices.BinarySearchFunc(p.odd, uint32(at), byPlace); found {
		return p.odd[i].x
	}
	return p.base
}

func byPlace(o odd, at uint32) int { return int(o.at) - int(at) }

// set raises an entry.
func (t *timeline) set(pages []*page, slot int, x uint32) {
	if t.get(pages, slot) >= x {
		return
	}
	i, at := slot/t.page, uint32(slot%t.page)
	pages[i] = t.join(pages[i], &page{odd: []odd{{at, x}}})
}

// raise joins entries into others.
func (t *timeline) raise(into, from []*page) {
	for i, p := range from {
		into[i] = t.join(into[i], p)
	}
}

// join returns the entry-wise maximum of two pages. If that equals a or b, it returns that page itself.
func (t *timeline) join(a, b *page) *page {
	if a == nil || a == b {
		return b
	}
	if b == nil {
		return a
	}
	base := max(a.base, b.base)
	isA, isB := base == a.base, base == b.base
	out := t.odd[:0]
	for i, j := 0, 0; i < len(a.odd) || j < len(b.odd); {
		o, x, y := odd{}, a.base, b.base
		switch {
		case j == len(b.odd) || i < len(a.odd) && a.odd[i].at < b.odd[j].at:
			o.at, x = a.odd[i].at, a.odd[i].x
			i++
		case i == len(a.odd) || b.odd[j].at < a.odd[i].at:
			o.at, y = b.odd[j].at, b.odd[j].x
			j++
		default:
			o.at, x, y = a.odd[i].at, a.odd[i].x, b.odd[j].x
			i, j = i+1, j+1
		}
		o.x = max(x, y)
		isA, isB = isA && o.x == x, isB && o.x == y
		if o.x != base {
			out = append(out, o)
		}
	}
	t.odd = out
	switch {
	case isA:
		return a
	case isB:
		return b
	}
	return t.settle(base, out)
}

// settle makes a page. Its base is the most frequent entry, if most entries differ from the given base and are equal.
func (t *timeline) settle(base uint32, list []odd) *page {
	if 2*len(list) <= t.page {
		return &page{base: base, odd: slices.Clone(list)}
	}
	most, votes := base, 0 // the candidate for a majority
	for _, o := range list {
		switch {
		case votes == 0:
			most, votes = o.x, 1
		case o.x == most:
			votes++
		default:
			votes--
		}
	}
	n := 0
	for _, o := range list {
		if o.x == most {
			n++
		}
	}
	if n <= t.page-len(list) {
		return &page{base: base, odd: slices.Clone(list)}
	}
	p := &page{base: most, odd: make([]odd, 0, t.page-n)}
	for at, i := uint32(0), 0; int(at) < t.page; at++ {
		x := base
		if i < len(list) && list[i].at == at {
			x = list[i].x
			i++
		}
		if x != most {
			p.odd = append(p.odd, odd{at, x})
		}
	}
	return p
}

// covers reports whether every entry is at least the same entry of others.
func (t *timeline) covers(pages, others []*page) bool {
	for i, p := range others {
		if t.join(pages[i], p) != pages[i] {
			return false
		}
	}
	return true
}

// image returns the entries as element g sees them.
func (t *timeline) image(s *symmetry.Group, g int32, pages []*page) []*page {
	out := slices.Clone(pages)
	for i, p := range pages {
		if p == nil || len(p.odd) == 0 {
			continue
		}
		n := &page{base: p.base, odd: make([]odd, len(p.odd))}
		for k, o := range p.odd {
			e := o.at % uint32(t.order)
			n.odd[k] = odd{o.at - e + uint32(s.Mul(g, int32(e))), o.x}
		}
		slices.SortFunc(n.odd, func(a, b odd) int { return int(a.at) - int(b.at) })
		out[i] = n
	}
	return out
}

// imageOf returns the slot whose entry the image under g has in a slot.
func (t *timeline) imageOf(s *symmetry.Group, g int32, slot int) int {
	if g == 0 {
		return slot
	}
	e := slot % t.order
	return slot - e + int(s.Mul(s.Inverse(g), int32(e)))
}
