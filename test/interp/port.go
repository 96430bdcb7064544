package interp

import (
	"slices"

	"github.com/goccl/goccl/plan"
)

// portQueue is a port channel and its proxy: transfers and signals run in the order of the pushes, each when the
// scheduler steps the queue. The proxy reads the source of a transfer and puts the bytes on the wire, a queue of its
// own, at whose end they are written: a flush waits for the proxy and not for the wire.
type portQueue struct {
	m      *machine
	link   int // of the wire: from len(links) on
	wire   *portQueue
	items  []func() bool // each makes one step and reports whether it is complete
	actor  int
	pushed int
	over   int
}

func (q *portQueue) push(item func() bool) {
	q.m.trace.touch(object{kind: pushesOf, a: q.link})
	q.m.trace.arrive(point{transferAt, q.link, 0, q.pushed})
	q.items = append(q.items, item)
	q.pushed++
}

func (q *portQueue) step() (bool, error) {
	if len(q.items) == 0 {
		return false, nil
	}
	q.m.trace.learn(point{transferAt, q.link, 0, q.over})
	if q.items[0]() {
		q.items = q.items[1:]
		q.m.trace.arrive(point{transferredAt, q.link, 0, q.over})
		q.over++
	}
	return true, nil
}

// flushed waits for all that was in the channel when the thread reached the flush. To arrive is one step, to leave is
// another.
func (l *thread) flushed(q *portQueue) (done, on bool) {
	if !l.active {
		q.m.trace.read(object{kind: pushesOf, a: q.link}, false)
		l.active, l.target = true, q.pushed
		return false, true
	}
	if q.over < l.target {
		return false, false
	}
	if l.target > 0 {
		q.m.trace.learn(point{transferredAt, q.link, 0, l.target - 1})
	}
	l.active = false
	return true, true
}

// port serves the entries of this thread: one transfer each, then the signal and the flush that the op includes. Entry
// number e has stages 3e to 3e+2.
func (l *thread) port(in *instruction) (done, on bool) {
	b, m, s := l.b, l.b.m, in.step
	mine := l.mine(len(s.Moves))
	if l.stage == 3*len(mine) {
		return true, true
	}
	e := mine[l.stage/3]
	q := l.queue(s, e)
	switch l.stage % 3 {
	case 0:
		pieces := b.pieces(in, &s.Moves[e])
		if !s.Raw { // packets among the sources are awaited
			for _, p := range pieces {
				if !m.ready(p, b.r.launch) {
					return false, false
				}
			}
			for _, p := range pieces {
				m.await(p, b.r.launch)
			}
		}
		m.transfer(q, pieces, b.r.launch)
	case 1:
		if s.Does.Has(plan.Adds) {
			l.add(s, e)
		}
	case 2:
		if s.Does.Has(plan.Flushes) {
			ok, on := l.flushed(q)
			if !ok {
				return false, on
			}
		}
	}
	l.stage++
	return l.stage == 3*len(mine), true
}

// transfer pushes a copy of pieces.
func (m *machine) transfer(q *portQueue, pieces []piece, launch int) {
	q.push(func() bool {
		if len(pieces) == 0 {
			return true
		}
		p := pieces[0]
		pieces = pieces[1:]
		if src := &p.move.Src[0]; src.Plane == plan.PacketPlane {
			m.copyPackets(q, p, launch)
		} else {
			bytes, n := m.gather(p, launch, 0)
			q.send(func() { m.scatter(p, launch, bytes, n) })
		}
		return len(pieces) == 0
	})
}

// send puts a step on the wire.
func (q *portQueue) send(arrive func()) {
	q.wire.push(func() bool { arrive(); return true })
}

// copyPackets copies packets as they are, flags included.
func (m *machine) copyPackets(q *portQueue, p piece, launch int) {
	src, dst := &p.move.Src[0], &p.move.Dst[0]
	l := m.layouts[launch]
	from, to := m.ranks[src.Rank], m.ranks[dst.Rank]
	a := packetAt(from.places, l, uint64(launch), src.Index+p.j, p.x)
	b := packetAt(to.places, l, uint64(launch), dst.Index+p.j, p.x)
	for x := range 2 * l.Alignment / payload {
		m.trace.read(object{kind: scratchOf, a: from.rank, at: a + x*payload}, false)
	}
	packets := slices.Clone(from.scratch[a : a+2*l.Alignment])
	q.send(func() {
		for x := range 2 * l.Alignment / payload {
			m.trace.write(object{kind: scratchOf, a: to.rank, at: b + x*payload})
		}
		copy(to.scratch[b:], packets)
	})
}
