package models

import "testing"

// Work in place (kernels/collective/direct.cuh): in each launch a rank writes a line at every peer, with the number of
// the launch and whether all ranks have mapped its buffers, and reads the peers' lines. If all lines say yes, it uses
// the peers' buffers, and parts: it writes the number again and waits for the peers' numbers. Else the ring does the
// work, which brings something of every rank to every rank. Property: all ranks of a launch take one way, a rank uses
// buffers only of peers that are in the same launch, and no rank waits for ever.

// directLine is what a peer has written: numbers of launches, and mapped as in the latest one.
type directLine struct {
	met, parted uint8
	mapped      bool
}

type directState struct {
	launch [ranks]uint8             // that the rank is in, from 1; epochs+1: done
	mapped [ranks]uint8             // 1: its buffers are mapped in this launch, 2: not, 0: it has not begun
	wrote  [ranks]uint8             // a bit for each peer
	read   [ranks]uint8             // a bit for each peer
	refuse [ranks]bool              // a line that was read, or the rank's own word, says no
	used   [ranks]uint8             // a bit for each peer: its buffers were used, or its part came around the ring
	told   [ranks]uint8             // a bit for each peer: it knows that this rank has parted
	line   [ranks][ranks]directLine // by reader, writer
	wrong  bool
}

type directFaults struct {
	noParting bool // a rank leaves when its own work is done
	ownWord   bool // a rank takes the way that its own buffers allow
	anyNumber bool // a line of an earlier launch counts
}

func directs(f directFaults) *system[directState] {
	return &system[directState]{start: directState{launch: each[uint8](1)},
		next: func(s directState, add adder[directState]) {
			for r := range ranks {
				e := s.launch[r]
				if e > epochs {
					continue
				}
				if s.mapped[r] == 0 {
					for word := uint8(1); word <= 2; word++ {
						to := s
						to.mapped[r], to.refuse[r] = word, word == 2
						add(to, "rank %d begins launch %d, mapped %v", r, e, word == 1)
					}
					continue
				}
				for p := range ranks {
					bit := uint8(1) << p
					at := s.line[r][p]
					met := s.read[r] == peersOf(r) && s.wrote[r] == peersOf(r)
					switch {
					case p == r:
					case s.wrote[r]&bit == 0:
						to := s
						to.line[p][r].met, to.line[p][r].mapped = e, s.mapped[r] == 1
						to.wrote[r] |= bit
						add(to, "rank %d writes to rank %d", r, p)
					case s.read[r]&bit == 0 && (at.met == e || f.anyNumber && at.met != 0):
						to := s
						to.read[r] |= bit
						to.refuse[r] = s.refuse[r] || !at.mapped && !f.ownWord
						add(to, "rank %d reads rank %d's line", r, p)
					case met && s.used[r]&bit == 0 && !s.refuse[r]:
						to := s
						to.used[r] |= bit
						to.wrong = s.wrong || s.launch[p] != e || s.mapped[p] != 1
						add(to, "rank %d uses rank %d's buffers", r, p)
					case met && s.used[r]&bit == 0 && s.launch[p] >= e && (s.launch[p] > e ||
						s.wrote[p] == peersOf(p) && s.read[p] == peersOf(p) && s.refuse[p]):
						to := s
						to.used[r] |= bit
						add(to, "what rank %d sends around the ring comes to rank %d", p, r)
					case s.used[r] == peersOf(r) && s.told[r]&bit == 0 && !s.refuse[r]:
						to := s
						to.line[p][r].parted, to.told[r] = e, s.told[r]|bit
						add(to, "rank %d parts from rank %d", r, p)
					}
				}
				leaves := s.used[r] == peersOf(r)
				for p := range ranks {
					if p != r && !s.refuse[r] && !f.noParting {
						leaves = leaves && s.told[r]&(1<<p) != 0 && s.line[r][p].parted == e
					}
				}
				if leaves {
					to := s
					to.launch[r]++
					to.mapped[r], to.wrote[r], to.read[r], to.used[r], to.told[r], to.refuse[r] = 0, 0, 0, 0, 0, false
					add(to, "rank %d leaves launch %d", r, e)
				}
			}
		},
		safe: func(s directState) string {
			if s.wrong {
				return "buffers of another launch"
			}
			return ""
		},
		done: func(s directState) bool { return reached(epochs+1, s.launch) }}
}

func TestDirect(t *testing.T) {
	holds(t, directs(directFaults{}), map[string]*system[directState]{
		"no parting: buffers of another launch": directs(directFaults{noParting: true}),
		"its own word: buffers of another":      directs(directFaults{ownWord: true}),
		"any number: buffers of another launch": directs(directFaults{anyNumber: true}),
	})
}
