package plan

// clock is a vector clock: for every component, how many of its phases happen before this point. Components are the
// thread blocks, the port channels that carry transfers (one per thread block and channel that it pushes to), and the
// callers, one per rank.
//
// A phase of a thread block ends where all its threads synchronize (nop, barrier, end of a launch). A clock covers an
// access in phase n when the entry of its component is above n. The phases of a port channel are its transfers, those
// of a caller its turns between launches.
//
// There are two orders. Phases in d have completed and are visible: their writes can be read. Phases in c have
// completed but may not be visible: what they read may be overwritten. c includes d. Signals, semaphores and barriers
// pass on both. A packet passes on only c: its arrival proves that its writer has reached that point, but it does not
// order any of the writer's other stores.
//
// A clock does not change after it is shared, so sharing needs no copy.
type clock struct {
	d, c  []uint32
	owner int    // component whose clock this is at the end of its phase, or -1
	phase uint32 // a clock with owner at phase includes all of this clock
}

// mutable returns a copy that the caller may change before sharing it.
func (k *clock) mutable() *clock {
	n := &clock{d: append([]uint32(nil), k.d...), owner: -1}
	if &k.d[0] == &k.c[0] {
		n.c = n.d
	} else {
		n.c = append([]uint32(nil), k.c...)
	}
	return n
}

// split gives c its own storage, before c gets entries that d does not have.
func (k *clock) split() {
	if &k.d[0] == &k.c[0] {
		k.c = append([]uint32(nil), k.d...)
	}
}

func raise(dst, src []uint32) {
	dst = dst[:len(src)]
	for i, v := range src {
		if v > dst[i] {
			dst[i] = v
		}
	}
}

// learn joins o into k, which must be mutable.
func (k *clock) learn(o *clock) {
	if o.owner >= 0 && k.d[o.owner] >= o.phase {
		return
	}
	if &o.d[0] != &o.c[0] {
		k.split()
	}
	raise(k.d, o.d)
	if &k.d[0] != &k.c[0] {
		raise(k.c, o.c)
	}
}

// learnControl joins o into k's completed phases (c), not into its visible ones (d).
func (k *clock) learnControl(o *clock) {
	if o.owner >= 0 && k.c[o.owner] >= o.phase {
		return
	}
	k.split()
	raise(k.c, o.c)
}

// set records that the phases of component i below phase have completed and are visible.
func (k *clock) set(i int, phase uint32) {
	k.d[i] = max(k.d[i], phase)
	k.c[i] = max(k.c[i], phase)
}
