package cudawire

import (
	"cmp"
	"slices"

	"github.com/goccl/goccl/engine/hosts/wire"
)

// parts calls run for a phase that fits into one launch, else for parts of it, one after the other. Messages have the
// order of their distance, from the sender to the receiver modulo the number of ranks, and of their number in the pair:
// the same on both sides. The parts follow that order, wherever each rank cuts. So no ranks wait for each other in a
// circle: of the messages that have not ended, the first is in the running part of both its ranks.
//
// A reduction receives from all of its peers at once, so it has no place in that order. All that its phase sends goes
// ahead, if the rings have room: then it waits for nobody.
func (w *Wire) parts(p *wire.Phase, run func(*wire.Phase) error) error {
	most := min(mostItems, w.blocks)
	if itemsOf(p) <= most || len(p.Reduces) > 0 && (w.build.ownOf(p) == ownSent || !w.haveRoom(p.Sends)) {
		return run(p)
	}
	if len(p.Reduces) > 0 {
		for some := range slices.Chunk(p.Sends, most) {
			if err := run(&wire.Phase{Sends: some}); err != nil {
				return err
			}
		}
		return run(&wire.Phase{Recvs: p.Recvs, Reduces: p.Reduces})
	}
	n := len(w.by)
	type message struct {
		distance, number int
		recv             bool
		part             wire.Part
	}
	var list []message
	for _, recv := range []bool{false, true} {
		number, parts := map[int]int{}, p.Sends
		if recv {
			parts = p.Recvs
		}
		for _, m := range parts {
			d := m.Peer - w.rank
			if recv {
				d = -d
			}
			list = append(list, message{(d + n) % n, number[m.Peer], recv, m})
			number[m.Peer]++
		}
	}
	slices.SortStableFunc(list, func(a, b message) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.number, b.number))
	})
	for some := range slices.Chunk(list, most) {
		part := &wire.Phase{Counted: p.Counted}
		for _, m := range some {
			if m.recv {
				part.Recvs = append(part.Recvs, m.part)
			} else {
				part.Sends = append(part.Sends, m.part)
			}
		}
		if err := run(part); err != nil {
			return err
		}
	}
	return nil
}

// haveRoom reports whether the rings hold all sends once the peers have taken what was sent before: credits come for
// half a ring, so less than half of it may be taken without one.
func (w *Wire) haveRoom(sends []wire.Part) bool {
	slots := map[int]int64{} // of a lane
	for _, m := range sends {
		_, chunks := w.geo.chunks(m.Bytes)
		if slots[m.Peer] += (chunks + w.geo.lanes - 1) / w.geo.lanes; slots[m.Peer] > int64(w.geo.half()) {
			return false
		}
	}
	return true
}
