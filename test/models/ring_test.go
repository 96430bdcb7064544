package models

import "testing"

// A ring: every rank sends one piece to the next rank, and then forwards each piece that it receives, through two slots
// at each receiver. A flag at the receiver says how many slots have arrived; a limit at the sender says how many may be
// sent. Property: every piece arrives once, in order and unchanged, and no rank waits for ever.

const (
	slots  = 2
	pieces = epochs
)

type ringState struct {
	stored [ranks]uint8        // pieces that the rank has written into its successor's slots
	flag   [ranks]uint8        // at the receiver: slots below have arrived
	read   [ranks]uint8        // slots that the rank has read
	limit  [ranks]uint8        // at the sender: slots below may be written
	slot   [ranks][slots]uint8 // at the receiver: number of the piece, plus one
	wrong  uint8
}

type ringFaults struct {
	early   bool // room is given back before the slot is read
	unready bool // the flag is published before the slot is written
	eager   bool // the sender does not look at the limit
	short   bool // the limit counts the slots that were read, not those that may be sent
}

func ring(f ringFaults) *system[ringState] {
	return &system[ringState]{start: ringState{limit: each[uint8](slots)},
		next: func(s ringState, add adder[ringState]) {
			for r := range ranks {
				after, before := (r+1)%ranks, (r+ranks-1)%ranks
				// Piece n can be sent when piece n-1 of the predecessor was read: it is passed on.
				may := func(n uint8) bool { return n < pieces && (n == 0 || s.read[r] >= n) }
				if n := s.stored[r]; may(n) && (n < s.limit[r] || f.eager) && s.flag[after] == n {
					to := s
					to.slot[after][n%slots], to.stored[r] = n+1, n+1
					add(to, "rank %d writes piece %d", r, n)
				}
				if n := s.flag[after]; n < s.stored[r] || f.unready && n == s.stored[r] && may(n) {
					to := s
					to.flag[after] = n + 1
					add(to, "rank %d says that piece %d has arrived", r, n)
				}
				if n := s.read[r]; n < s.flag[r] {
					to := s
					if to.read[r] = n + 1; s.slot[r][n%slots] != n+1 {
						to.wrong = uint8(r) + 1
					}
					add(to, "rank %d reads piece %d", r, n)
				}
				room := s.read[r]
				if f.early {
					room = s.flag[r] + 1
				}
				if room += slots; f.short {
					room -= slots
				}
				if s.limit[before] < min(room, pieces) {
					to := s
					to.limit[before]++
					add(to, "rank %d gives room to rank %d", r, before)
				}
			}
		},
		safe: func(s ringState) string { return blame(s.wrong, "rank %d reads another piece") },
		done: func(s ringState) bool {
			for r := range ranks {
				if s.read[r] < pieces {
					return false
				}
			}
			return true
		}}
}

func TestRing(t *testing.T) {
	holds(t, ring(ringFaults{}), map[string]*system[ringState]{
		"room before the read: another piece":           ring(ringFaults{early: true}),
		"the flag before the data: another piece":       ring(ringFaults{unready: true}),
		"no look at the limit: another piece":           ring(ringFaults{eager: true}),
		"a limit without the slots: nothing can happen": ring(ringFaults{short: true}),
	})
}
