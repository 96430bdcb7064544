package plan

// A clock is what somebody knows of everybody: for every component, how many of its phases are known to be over. Components are the thread
// blocks, the port channels that carry transfers (one per thread block and channel that pushes to it), and the callers, one per rank.
//
// Phases of a thread block end where all its threads meet (nop, barrier, end of a launch). An access in phase n is known once the component
// stands above n. Phases of a port channel are its transfers, those of a caller its turns between launches.
//
// There are two kinds of knowledge. What is in d is over and visible: its writes can be read. What is in c is over but perhaps not visible:
// what it read may be overwritten. c covers d. Signals, semaphores and barriers pass on both, a packet only c: that it has arrived shows that
// its writer had come so far, but orders none of the writer's other stores.
//
// A clock never changes once it is shared, so sharing one costs nothing.
type clock struct {
	d, c  []uint32
	owner int    // component whose knowledge this is at the end of its phase, or -1
	phase uint32 // whoever knows owner at phase knows all of this clock
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

// split gives c a store of its own, before c learns what d does not.
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

// learn adds all of o to k, which must be mutable.
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

// learnControl adds o to what k knows to be over but not visible.
func (k *clock) learnControl(o *clock) {
	if o.owner >= 0 && k.c[o.owner] >= o.phase {
		return
	}
	k.split()
	raise(k.c, o.c)
}

// set states that phases of component i below phase are over and visible.
func (k *clock) set(i int, phase uint32) {
	k.d[i] = max(k.d[i], phase)
	k.c[i] = max(k.c[i], phase)
}
