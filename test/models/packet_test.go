package models

import "testing"

// Packets: in each epoch every rank sends a packet to every peer, into the area of the epoch's parity, and begins the
// next epoch once it has got the packets of all. A packet carries its epoch as a flag. Property: a rank gets exactly
// the data of the current epoch, and no rank waits for ever.

// packet is what lies in a place: parts of LL are written in one store; a line of LL128 arrives as a whole.
type packet struct{ data, flag uint8 }

type packetState struct {
	epoch [ranks]uint8            // that the rank is in, from 1; epochs+1: done
	sent  [ranks]uint8            // in this epoch: a bit for each peer
	half  [ranks]uint8            // a packet to that peer is half written (only with a fault); 0: none, else peer+1
	got   [ranks]uint8            // a bit for each peer
	place [ranks][2][ranks]packet // by receiver, parity, sender
	wrong uint8                   // a rank, plus one, that took data of another epoch
}

// packetFaults break the protocol.
type packetFaults struct {
	oneArea bool // there is one area for all epochs
	oneWay  bool // rank 0 waits for nobody, as a broadcast's root without credits
	torn    bool // the flag may arrive before the data
	anyFlag bool // the receiver takes any packet that has a flag
}

func packets(f packetFaults) *system[packetState] {
	parity := func(e uint8) uint8 {
		if f.oneArea {
			return 0
		}
		return e & 1
	}
	return &system[packetState]{start: packetState{epoch: each[uint8](1)},
		next: func(s packetState, step adder[packetState]) {
			add := func(to packetState, format string, args ...any) {
				for r := range ranks { // a rank that has all begins the next epoch
					waits := peersOf(r)
					if f.oneWay && r == 0 {
						waits = 0
					}
					if to.epoch[r] <= epochs && to.sent[r] == peersOf(r) && to.half[r] == 0 &&
						to.got[r]&waits == waits {
						to.epoch[r], to.sent[r], to.got[r] = to.epoch[r]+1, 0, 0
					}
				}
				step(to, format, args...)
			}
			for r := range ranks {
				e := s.epoch[r]
				if e > epochs {
					continue
				}
				for p := range ranks {
					if p == r {
						continue
					}
					if s.sent[r]>>p&1 == 0 && s.half[r] == 0 {
						to := s
						at := &to.place[p][parity(e)][r]
						if at.flag = e; f.torn {
							to.half[r] = uint8(p) + 1
						} else {
							at.data = e
						}
						to.sent[r] |= 1 << p
						add(to, "rank %d sends epoch %d to rank %d", r, e, p)
					}
					if s.half[r] == uint8(p)+1 {
						to := s
						to.place[p][parity(e)][r].data, to.half[r] = e, 0
						add(to, "the data of rank %d's packet arrive at rank %d", r, p)
					}
					in := s.place[r][parity(e)][p]
					if s.got[r]>>p&1 == 0 && (in.flag == e || f.anyFlag && in.flag != 0) && !(f.oneWay && r == 0) {
						to := s
						if to.got[r] |= 1 << p; in.data != e {
							to.wrong = uint8(r) + 1
						}
						add(to, "rank %d gets the packet of rank %d", r, p)
					}
				}
			}
		},
		safe: func(s packetState) string { return blame(s.wrong, "rank %d takes data of another epoch") },
		done: func(s packetState) bool { return reached(epochs+1, s.epoch) }}
}

func TestPackets(t *testing.T) {
	holds(t, packets(packetFaults{}), map[string]*system[packetState]{
		"one area: nothing can happen":          packets(packetFaults{oneArea: true}),
		"no credits: nothing can happen":        packets(packetFaults{oneWay: true}),
		"the flag first: data of another epoch": packets(packetFaults{torn: true}),
		"flags unread: data of another epoch":   packets(packetFaults{anyFlag: true}),
	})
}
