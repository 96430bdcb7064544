package models

import (
	"fmt"
	"testing"
)

// Leaving: ranks call a few operations, and one of them aborts at any time. A kernel waits for the parts of all ranks
// and looks only at its own rank's word, so the leaver tells its peers how many operations it has called, and whether
// one of them was cut short (package goccl, notices). Property: every rank ends; a rank gets an error only if the
// leaver does not do its part of what the rank has called; and no operation ends without every rank's part.

const (
	working = iota
	ended   // all operations came out well
	failed  // with an error
	gone    // aborted
)

type abortState struct {
	called [ranks]uint8 // operations
	parts  [ranks]uint8 // operations of which the rank has sent its part
	over   [ranks]uint8 // operations that came out well
	status [ranks]uint8
	// the notice of the rank that left, and the ranks that have received it
	count uint8
	cut   bool
	told  bool
	heard [ranks]bool
	wrong uint8
}

type abortFaults struct {
	silent  bool // no notice is sent
	noCount bool // a peer fails at once, though the work that it has called completes
	early   bool // a peer that has called as much as the leaver goes on to wait for the next call
	lostCut bool // the notice does not say that work was cut short
}

func aborting(f abortFaults) *system[abortState] {
	const leaver = 0
	return &system[abortState]{
		next: func(s abortState, add adder[abortState]) {
			for r := range ranks {
				if s.status[r] != working {
					continue
				}
				if n := s.called[r]; n < epochs && n == s.over[r] {
					to := s
					to.called[r]++
					// A rank that knows counts before it waits.
					if s.heard[r] && to.called[r] > s.count && !f.early {
						to.status[r] = failed
					}
					add(to, "rank %d calls operation %d", r, n)
				}
				if n := s.parts[r]; n < s.called[r] {
					to := s
					to.parts[r]++
					add(to, "rank %d sends its part of operation %d", r, n)
				}
				if n := s.over[r]; n < s.parts[r] {
					to, complete := s, true
					for p := range ranks {
						complete = complete && s.parts[p] > n
					}
					if to.over[r]++; complete {
						if to.over[r] == epochs {
							to.status[r] = ended
						}
						add(to, "operation %d ends on rank %d", n, r)
					}
				}
				if s.told && !s.heard[r] && r != leaver {
					to := s
					to.heard[r] = true
					if s.cut && !f.lostCut || s.called[r] > s.count || f.noCount {
						if to.status[r] = failed; !s.cut && s.called[r] <= s.count {
							to.wrong = uint8(r) + 1
						}
					}
					add(to, "rank %d hears that rank %d has left", r, leaver)
				}
				// A peer that failed blames the same rank in turn: its own peers get the leaver's notice, not one of it.
			}
			if s.status[leaver] == working {
				to := s
				to.status[leaver], to.told, to.count = gone, !f.silent, s.called[leaver]
				to.cut = s.over[leaver] < s.called[leaver]
				add(to, "rank %d aborts", leaver)
			}
		},
		safe: func(s abortState) string {
			if s.wrong > 0 {
				return fmt.Sprintf("rank %d fails though its work completes", s.wrong-1)
			}
			for r := range ranks {
				for p := range ranks {
					if s.over[r] > s.parts[p] {
						return fmt.Sprintf("an operation ends on rank %d without the part of rank %d", r, p)
					}
				}
				if s.status[r] == failed && s.status[leaver] != gone {
					return fmt.Sprintf("rank %d fails though nobody has left", r)
				}
			}
			return ""
		},
		done: func(s abortState) bool {
			for r := range ranks {
				// A rank that has got all that it called may end its program.
				if s.status[r] == working && s.over[r] < s.called[r] {
					return false
				}
			}
			return true
		}}
}

func TestAborting(t *testing.T) {
	holds(t, aborting(abortFaults{}), map[string]*system[abortState]{
		"no notice: nothing can happen":              aborting(abortFaults{silent: true}),
		"no counts: fails though its work completes": aborting(abortFaults{noCount: true}),
		"later calls: nothing can happen":            aborting(abortFaults{early: true}),
		"not told of the cut: nothing can happen":    aborting(abortFaults{lostCut: true}),
	})
}
