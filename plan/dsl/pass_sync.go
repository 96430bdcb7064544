package dsl

import "slices"

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
		sync := o.sync
		switch {
		case !o.synchronises() || sync == syncUnset && !p.spec.NoAutoSync:
			sync = SyncNone
		case sync == syncUnset:
			sync = SyncBoth
		}
		if sync&SyncBefore != 0 {
			meet(o)
		}
		if o.isNop() {
			meet(o)
		} else {
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

// autoSync inserts a nop before every operation that could overtake an earlier operation of the same block. Between
// synchronization points the threads of a block run independently, and only a few of them execute signals and waits. So
// a synchronization point is needed
//  1. after a wait, acquire or flush, before an operation that accesses data or sends a signal;
//  2. after an access to data, before a signal or release, or a transfer that the proxy executes;
//  3. between two operations that access a common chunk, on whatever rank, if one writes it. Two accesses as packets
//     need none: readers of packets wait for the flags;
//  4. between two waits on one channel, or two uses of one semaphore: different threads may execute them.
//
// A pipeline's body is processed twice, so that the end of an iteration is checked against the start of the next.
func (p *CollectiveProgram) autoSync(ops []*operation) []*operation {
	var out []*operation
	var s pending
	for i := 0; i < len(ops); {
		end := i + 1
		if l := ops[i].loop; l != nil {
			for end < len(ops) && ops[end].loop == l {
				end++
			}
		}
		body := s.run(ops[i:end])
		if ops[i].loop != nil {
			if again := s.run(body); len(again) > len(body) {
				body = again
			}
		}
		out = append(out, body...)
		i = end
	}
	return trimNops(out)
}

// pending are the block's operations since all its threads last synchronized.
type pending []*operation

func (s *pending) run(ops []*operation) []*operation {
	var out []*operation
	for _, o := range ops {
		switch {
		case o.meets():
			*s = nil
		case slices.ContainsFunc(*s, o.waitsFor):
			out = append(out, nopBefore(o))
			*s = pending{o}
		default:
			*s = append(*s, o)
		}
		out = append(out, o)
	}
	return out
}

// waitsFor reports whether all threads of the block must have done e, an earlier operation, before o. Iterations of a
// pipeline work on different slices of a chunk, so the order that this adds between them is unnecessary but harmless.
func (o *operation) waitsFor(e *operation) bool {
	return e.admits() && (o.movesData() || o.publishes() || o.admits() && meet(e.channels, o.channels)) ||
		e.movesData() && o.publishes() || meet(e.semaphores, o.semaphores) || conflict(e, o, func(x, y operand) bool {
		return !(x.packets && y.packets) && overlapPlaces(x, y)
	})
}
