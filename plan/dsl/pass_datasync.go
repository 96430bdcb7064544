package dsl

// placeSyncs turns the author's SyncType into nop operations, which synchronize all threads of the block. It drops nops
// that have no effect: at the start of a block, and right after another synchronization point.
func (p *CollectiveProgram) placeSyncs(ops []*operation) []*operation {
	var out []*operation
	fresh := true // no operation since the last synchronization point
	meet := func(at *operation) {
		if !fresh {
			out = append(out, nopBefore(at))
			fresh = true
		}
	}
	var current *loop
	for _, o := range ops {
		if o.loop != current {
			current, fresh = o.loop, false // the end of an iteration is followed by its start
		}
		sync := SyncNone
		if o.synchronises() {
			sync = o.sync
			if sync == syncUnset {
				sync = SyncNone
				if p.spec.NoAutoSync {
					sync = SyncBoth
				}
			}
		}
		if sync&SyncBefore != 0 {
			meet(o)
		}
		switch {
		case o.isNop():
			meet(o)
		default:
			out = append(out, o)
			fresh = o.meets()
		}
		if sync&SyncAfter != 0 {
			meet(o)
		}
	}
	return trimNops(out)
}

// trimNops drops nops at the end of a block; the end of a kernel synchronizes all threads.
func trimNops(ops []*operation) []*operation {
	for len(ops) > 0 && ops[len(ops)-1].isNop() && ops[len(ops)-1].loop == nil {
		ops = ops[:len(ops)-1]
	}
	return ops
}
