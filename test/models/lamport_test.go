package models

import "testing"

// Lamport packets: memory without a packet is zero, a receiver makes it zero when it has read a packet, and launches
// use two sets of slots in turn. In launches 1 and 3 every rank sends to every other (one-shot). In launch 2 the ranks
// send to rank 0 only, which answers when it has all (two-shot, one owner), so ranks 1 and 2 hear of each other only
// through it. Property: a rank gets exactly the data of its launch, and no rank waits for ever.

type lamportState struct {
	launch [ranks]uint8           // that the rank is in, from 1; epochs+1: done
	sent   [ranks]uint8           // in this launch: a bit for each peer
	got    [ranks]uint8           // a bit for each peer
	dirty  [ranks][2]uint8        // by parity: a bit for each peer whose packet was read and is not yet zero
	slot   [ranks][2][ranks]uint8 // by receiver, parity, sender: the launch of the packet there; 0: none
	wrong  uint8                  // a rank, plus one, that took data of another launch
}

// lamportFaults break the protocol.
type lamportFaults struct {
	oneSet bool // there is one set of slots for all launches
	late   bool // a launch may end before the packets that it has read are zero
	eager  bool // rank 0 answers in launch 2 before it has all
	never  bool // nothing is made zero
}

func lamports(f lamportFaults) *system[lamportState] {
	parity := func(launch uint8) uint8 {
		if f.oneSet {
			return 0
		}
		return launch & 1
	}
	// peers are those that a rank sends to, and gets from, in a launch.
	peers := func(r int, launch uint8) uint8 {
		if launch == 2 && r != 0 {
			return 1
		}
		return peersOf(r)
	}
	return &system[lamportState]{start: lamportState{launch: each[uint8](1)},
		next: func(s lamportState, step adder[lamportState]) {
			add := func(to lamportState, format string, args ...any) {
				for r := range ranks { // a rank that has all begins the next launch
					l := to.launch[r]
					if l > epochs || to.sent[r] != peers(r, l) || to.got[r] != peers(r, l) ||
						!f.late && to.dirty[r] != [2]uint8{} {
						continue
					}
					to.launch[r], to.sent[r], to.got[r] = l+1, 0, 0
				}
				step(to, format, args...)
			}
			for r := range ranks {
				for set := range s.dirty[r] {
					for p := range ranks {
						if s.dirty[r][set]>>p&1 != 0 {
							to := s
							to.dirty[r][set] &^= 1 << p
							to.slot[r][set][p] = 0
							add(to, "rank %d makes the packet of rank %d zero", r, p)
						}
					}
				}
				l := s.launch[r]
				if l > epochs {
					continue
				}
				all := peers(r, l)
				for p := range ranks {
					if all>>p&1 == 0 {
						continue
					}
					if ready := l != 2 || r != 0 || s.got[r] == all || f.eager; ready && s.sent[r]>>p&1 == 0 {
						to := s
						to.sent[r] |= 1 << p
						to.slot[p][parity(l)][r] = l
						add(to, "rank %d sends launch %d to rank %d", r, l, p)
					}
					if in := s.slot[r][parity(l)][p]; s.got[r]>>p&1 == 0 && in != 0 {
						to := s
						if to.got[r] |= 1 << p; in != l {
							to.wrong = uint8(r) + 1
						}
						if !f.never {
							to.dirty[r][parity(l)] |= 1 << p
						}
						add(to, "rank %d gets the packet of rank %d", r, p)
					}
				}
			}
		},
		safe: func(s lamportState) string { return blame(s.wrong, "rank %d takes data of another launch") },
		done: func(s lamportState) bool { return past(epochs, s.launch) }}
}

func TestLamport(t *testing.T) {
	holds(t, lamports(lamportFaults{}), map[string]*system[lamportState]{
		"one set: takes data of another launch":                   lamports(lamportFaults{oneSet: true}),
		"zeros after the end: takes data of another launch":       lamports(lamportFaults{late: true}),
		"answers before all inputs: takes data of another launch": lamports(lamportFaults{eager: true}),
		"no zeros: takes data of another launch":                  lamports(lamportFaults{never: true}),
	})
}
