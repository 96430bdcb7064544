package models

import (
	"fmt"
	"testing"
)

// Slices of two owners, in place: each rank sends its part of the other's slice, adds what it gets to its own part, and
// sends the result back; every step goes through two slots at the receiver, with a flag there and a limit at the sender.
// The steps of a turn run beside each other, each in the order of the turns. Property: every step finds the data of its
// turn, no result overwrites a part that has not been sent, and no rank waits for ever.

const turns = 3

const (
	inputs = iota
	results
	phases
)

type sliceState struct {
	written [2][phases]uint8        // turns that the rank has written into the other's slots
	flag    [2][phases]uint8        // at the receiver: turns below have arrived
	read    [2][phases]uint8        // turns that the rank has added, or taken into its output
	limit   [2][phases]uint8        // at the sender: turns below may be written
	slot    [2][phases][slots]uint8 // at the receiver: the turn, plus one
	wrong   string
}

type sliceFaults struct {
	early   bool // room is given back before the slot is read
	unready bool // the flag is published before the slot is written
	hasty   bool // a result is sent before its sum
	eager   bool // the sender does not look at the limit
	one     bool // a rank takes a result before it adds the next part: one order for both
}

func sliceModel(f sliceFaults) *system[sliceState] {
	start := sliceState{}
	for r := range 2 {
		start.limit[r] = [phases]uint8{slots, slots}
	}
	return &system[sliceState]{start: start,
		next: func(s sliceState) (out []step[sliceState]) {
			add := func(to sliceState, format string, args ...any) {
				out = append(out, step[sliceState]{fmt.Sprintf(format, args...), to})
			}
			for r := range 2 {
				other := 1 - r
				for p := range phases {
					if n := s.written[r][p]; n < turns && (n < s.limit[r][p] || f.eager) &&
						(p == inputs || n < s.read[r][inputs] || f.hasty) {
						to := s
						to.slot[other][p][n%slots], to.written[r][p] = n+1, n+1
						if p == results && n >= s.read[r][inputs] {
							to.wrong = fmt.Sprintf("rank %d sends a result that it has not added", r)
						}
						add(to, "rank %d writes turn %d of phase %d", r, n, p)
					}
					if n := s.flag[other][p]; n < s.written[r][p] || f.unready && n == s.written[r][p] && n < turns {
						to := s
						to.flag[other][p] = n + 1
						add(to, "rank %d says that turn %d of phase %d has arrived", r, n, p)
					}
					if n := s.read[r][p]; n < s.flag[r][p] && (!f.one || p == results || n <= s.read[r][results]) {
						to := s
						to.read[r][p] = n + 1
						switch {
						case s.slot[r][p][n%slots] != n+1:
							to.wrong = fmt.Sprintf("rank %d reads another turn", r)
						case p == results && s.written[r][inputs] <= n:
							to.wrong = fmt.Sprintf("rank %d overwrites what it has not sent", r)
						}
						add(to, "rank %d reads turn %d of phase %d", r, n, p)
					}
					room := s.read[r][p]
					if f.early {
						room = s.flag[r][p] + 1
					}
					if s.limit[other][p] < min(room+slots, turns) {
						to := s
						to.limit[other][p]++
						add(to, "rank %d gives room for phase %d", r, p)
					}
				}
			}
			return out
		},
		safe: func(s sliceState) string { return s.wrong },
		done: func(s sliceState) bool {
			for r := range 2 {
				if s.read[r] != [phases]uint8{turns, turns} {
					return false
				}
			}
			return true
		}}
}

func TestSlices(t *testing.T) {
	holds(t, sliceModel(sliceFaults{}), map[string]*system[sliceState]{
		"room before the read":     sliceModel(sliceFaults{early: true}),
		"the flag before the data": sliceModel(sliceFaults{unready: true}),
		"a result before its sum":  sliceModel(sliceFaults{hasty: true}),
		"no look at the limit":     sliceModel(sliceFaults{eager: true}),
	})
	holds(t, sliceModel(sliceFaults{one: true}), nil) // kernels without bulk copies take steps in one order
}
