package interp

import "github.com/goccl/goccl/plan"

// portQueue is a port channel and its proxy: transfers and signals happen in the order of the pushes, each when the scheduler comes to it.
type portQueue struct {
	m      *machine
	link   int
	items  []func() bool // each makes one step and reports whether it is over
	pushed int
	over   int
}

func (q *portQueue) push(item func() bool) {
	q.items = append(q.items, item)
	q.pushed++
}

func (q *portQueue) step() (bool, error) {
	if len(q.items) == 0 {
		return false, nil
	}
	if q.items[0]() {
		q.items = q.items[1:]
		q.over++
	}
	return true, nil
}

// flushed waits for everything that was in the channel when the lane came to the flush.
func (l *lane) flushed(q *portQueue) bool {
	if !l.active {
		l.active, l.target = true, q.pushed
	}
	return q.over >= l.target
}

// port serves the entries of this lane: one transfer each, then the signal and the flush that the op includes. Stages 3e to 3e+2 are those of
// its entry number e.
func (l *lane) port(in *instruction) (done, on bool) {
	b, m, s := l.b, l.b.m, in.step
	mine := l.mine(len(s.Moves))
	for l.stage < 3*len(mine) {
		e := mine[l.stage/3]
		link := m.link(b.r.rank, plan.PortChannel, s.Channels[e])
		q := m.queues[link]
		switch l.stage % 3 {
		case 0:
			pieces := b.pieces(in, &s.Moves[e])
			if s.Op.Name == plan.ReadPutPackets {
				for _, p := range pieces {
					if !m.ready(p, b.r.launch) {
						return false, on
					}
				}
			}
			m.transfer(q, pieces, b.r.launch)
		case 1:
			if s.Op.Name == plan.PutWithSignal || s.Op.Name == plan.PutWithSignalAndFlush {
				m.signal(link)
			}
			l.active = false
		case 2:
			if s.Op.Name == plan.PutWithSignalAndFlush && !l.flushed(q) {
				return false, on
			}
			l.active = false
		}
		l.stage++
		on = true
	}
	return true, on
}

// transfer pushes a copy of pieces; packets are copied as they are, flags included.
func (m *machine) transfer(q *portQueue, pieces []piece, launch int) {
	q.push(func() bool {
		if len(pieces) == 0 {
			return true
		}
		p := pieces[0]
		pieces = pieces[1:]
		src, dst := &p.move.Src[0], &p.move.Dst[0]
		if src.Plane != plan.PacketPlane {
			m.move(p, launch, 0)
			return len(pieces) == 0
		}
		l := m.layouts[launch]
		from, to := m.ranks[src.Rank], m.ranks[dst.Rank]
		a := from.places.PacketAt(l, uint64(launch), src.Index+p.j, p.x)
		b := to.places.PacketAt(l, uint64(launch), dst.Index+p.j, p.x)
		copy(to.scratch[b:b+2*l.Alignment], from.scratch[a:a+2*l.Alignment])
		return len(pieces) == 0
	})
}
