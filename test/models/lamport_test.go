package models

import (
	"fmt"
	"math/bits"
	"testing"
)

// Lamport packets (kernels/collective/lamport.cuh, kernels/fused/args.cuh): memory without a packet is zero, a receiver
// makes it zero when it has read a packet, and launches use two sets of slots in turn. Each launch is a one-shot, in
// which every rank sends its input to every other, or a two-shot: the ranks send inputs to the owners, which are the
// first one, two or three ranks, and an owner that has all inputs sends the result to all. Ranks that own nothing hear
// of each other only through owners. A rank takes the packets of all its peers together, or of one after the other.
// Every wait is a long one: it reads the packets that it needs again. Property: a rank gets exactly the data of its
// launch, no packet is overwritten, and no rank waits for ever.

const oneShot = ranks + 1 // in place of the number of owners

type lamportState struct {
	kind   [epochs + 1]uint8         // of each launch: owners, or oneShot; 0: not known yet
	launch [ranks]uint8              // that the rank is in, from 1; epochs+1: done
	sent   [ranks][2]uint8           // in this launch, inputs and results: a bit for each peer
	got    [ranks][2]uint8           // a bit for each peer
	dirty  [ranks][2][2]uint8        // by set and half: a bit for each peer whose packet was read and is not yet zero
	slot   [ranks][2][2][ranks]uint8 // by receiver, set, half, sender: the launch of the packet there; 0: none
	wrong  string
}

// lamportFaults break the protocol.
type lamportFaults struct {
	oneSet  bool // there is one set of slots for all launches
	late    bool // a launch may end before the packets that it has read are zero
	eager   bool // an owner answers before it has all
	never   bool // nothing is made zero
	cleared bool // a wait is also for packets that were read, and are zero
	unowned bool // the first rank owns nothing, so there are launches without owners
}

// lamports receives the packets of batch peers together.
func lamports(batch int, f lamportFaults) *system[lamportState] {
	set := func(launch uint8) uint8 {
		if f.oneSet {
			return 0
		}
		return launch & 1
	}
	// to and from are those that a rank sends to, and gets from, in a launch: of the inputs, and of the results.
	to := func(s *lamportState, r int) [2]uint8 {
		kind := s.kind[s.launch[r]]
		owners := uint8(1)<<min(kind, ranks) - 1
		if f.unowned {
			owners &^= 1
		}
		switch {
		case kind == oneShot:
			return [2]uint8{peersOf(r), 0}
		case owners>>r&1 != 0:
			return [2]uint8{owners & peersOf(r), peersOf(r)}
		}
		return [2]uint8{owners, 0}
	}
	from := func(s *lamportState, r int) [2]uint8 {
		t := to(s, r)
		if s.kind[s.launch[r]] == oneShot {
			return t
		}
		return [2]uint8{t[1], t[0]} // results come from whom inputs go to
	}
	return &system[lamportState]{start: lamportState{launch: each[uint8](1)},
		next: func(s lamportState, step adder[lamportState]) {
			add := func(now lamportState, format string, args ...any) {
				for r := range ranks { // a rank that has all begins the next launch
					if l := now.launch[r]; l <= epochs && now.kind[l] != 0 && now.sent[r] == to(&now, r) &&
						now.got[r] == from(&now, r) && (f.late || now.dirty[r] == [2][2]uint8{}) {
						now.launch[r], now.sent[r], now.got[r] = l+1, [2]uint8{}, [2]uint8{}
					}
				}
				step(now, format, args...)
			}
			for r := range ranks {
				if l := s.launch[r]; l <= epochs && s.kind[l] == 0 {
					for kind := uint8(1); kind <= oneShot; kind++ {
						now := s
						now.kind[l] = kind
						add(now, "launch %d is of kind %d", l, kind)
					}
					return
				}
			}
			for r := range ranks {
				for i := range 4 {
					set, half := i&1, i>>1
					if read := s.dirty[r][set][half]; read != 0 {
						now := s
						now.dirty[r][set][half] = 0
						for p := range ranks {
							if read>>p&1 != 0 {
								now.slot[r][set][half][p] = 0
							}
						}
						add(now, "rank %d makes packets of ranks %b zero", r, read)
					}
				}
				l := s.launch[r]
				if l > epochs {
					continue
				}
				for half, all := range to(&s, r) {
					for p := range ranks {
						if all&^s.sent[r][half]>>p&1 == 0 || half == 1 && s.got[r][0] != peersOf(r) && !f.eager {
							continue
						}
						now := s
						now.sent[r][half] |= 1 << p
						if at := &now.slot[p][set(l)][half][r]; *at != 0 {
							now.wrong = fmt.Sprintf("rank %d overwrites a packet", r)
						} else {
							*at = l
						}
						add(now, "rank %d sends launch %d to rank %d", r, l, p)
					}
				}
				for half, all := range from(&s, r) {
					left, together, awaited := all&^s.got[r][half], uint8(0), uint8(0)
					if left == 0 {
						continue
					}
					for range min(batch, bits.OnesCount8(left)) {
						together |= (left &^ together) & -(left &^ together)
					}
					if awaited = together; f.cleared {
						awaited = all
					}
					now, at := s, s.slot[r][set(l)][half]
					for p := range ranks {
						if bit := uint8(1) << p; at[p] != 0 {
							awaited &^= bit
							if together&bit != 0 && at[p] != l {
								now.wrong = fmt.Sprintf("rank %d takes data of another launch", r)
							}
						}
					}
					if awaited == 0 && s.dirty[r][set(l)] == [2]uint8{} {
						now.got[r][half] |= together
						if !f.never {
							now.dirty[r][set(l)][half] |= together
						}
						add(now, "rank %d gets packets of ranks %b", r, together)
					}
					break // results are waited for when there are all inputs
				}
			}
		},
		safe: func(s lamportState) string { return s.wrong },
		done: func(s lamportState) bool { return reached(epochs+1, s.launch) }}
}

func TestLamport(t *testing.T) {
	holds(t, lamports(1, lamportFaults{}), map[string]*system[lamportState]{
		"one set: overwrites":                         lamports(1, lamportFaults{oneSet: true}),
		"zeros after the end: overwrites":             lamports(1, lamportFaults{late: true}),
		"answers before all inputs: overwrites":       lamports(1, lamportFaults{eager: true}),
		"no zeros: another launch":                    lamports(1, lamportFaults{never: true}),
		"waits for what was read: nothing can happen": lamports(1, lamportFaults{cleared: true}),
		"launches without owners: overwrites":         lamports(1, lamportFaults{unowned: true}),
	})
	holds(t, lamports(ranks-1, lamportFaults{}), nil)
}
