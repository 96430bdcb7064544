package verify

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
	n := &clock{t: k.t, d: k.t.own(k.d), one: k.one, owner: -1, over: k.over}
	if n.c = n.d; !k.one {
		n.c = k.t.own(k.c)
	}
	return n
}

// split gives c its own storage, before c gets entries that d does not have.
func (k *clock) split() {
	if k.one {
		k.c, k.one = k.t.own(k.d), false
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
	phase uint32
	lane  int
}

// reader and writer return the components of a port: its transfers as readers of their sources, which a flush waits
// for, and as writers of their destinations, which only what follows them in the channel waits for.
func (v *verifier) reader(port int) int { return v.caller + len(v.p.GPUs) + 2*port }
func (v *verifier) writer(port int) int { return v.reader(port) + 1 }
