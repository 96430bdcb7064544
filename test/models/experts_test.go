package models

import "testing"

// Experts without copies (kernels/moe, layout ZeroCopy): a dispatch stores rows where the callers of other ranks read
// them, and a combine reads results where those callers have put them. Behind a first dispatch the operations come in
// any order. Before each one its caller reads the rows of the latest dispatch and writes results. A dispatch is over
// for the others when the rank's next one begins, behind the caller's work, and no rank stores rows before the latest
// dispatch is over on all ranks. A combine reads when all ranks have begun it, and ends when all have read. The last
// rank has few tokens: its rows and their results travel as packets, and the receivers put its rows where callers read.
// Other ranks send to each other in each dispatch, so rows of several sources come to one place. Property: callers and
// combines read the rows and the results of their operation, and no rank waits for ever.

const (
	expertCalls = 4
	few         = ranks - 1 // the rank that has few tokens
)

// expertRoutes are the kinds of dispatches: for each source a bit for each rank to which it sends. The last kind are
// combines.
var expertRoutes = [][ranks]uint8{{7, 7, 7}, {2, 5, 0}, {4, 1, 3}, {}}

type expertState struct {
	kind   [expertCalls + 1]uint8 // of each operation, plus one; 0: not known yet
	call   [ranks]uint8           // the operation that the rank is in, from 1
	at     [ranks]uint8           // 0: its caller is at work, 1: it has begun, 2: it waits for the readers
	sent   [ranks]uint8           // a bit for each rank
	put    [ranks]bool            // the row that came as a packet is at its place
	row    [ranks][ranks]uint8    // by receiver and place: the dispatch and the source
	flag   [ranks][ranks]uint8    // by receiver and source: the dispatch; if the source has few tokens it is a packet
	result [ranks][ranks]uint8    // by experts' rank and place: the operation before which they were written
	back   [ranks]uint8           // by experts' rank: the combine of the packet to the rank of few tokens
	over   [2][ranks]uint8        // the latest dispatch and combine
	begun  [ranks]uint8           // the latest combine
	wrong  uint8                  // a rank, plus one
}

type expertFaults struct {
	early   bool // a dispatch is over when it ends
	never   bool // a dispatch is never over
	eager   bool // rows are stored at once
	unready bool // a combine does not wait until all have begun
	leaves  bool // a combine ends when its own rank has read
}

// latest returns the latest combine, or dispatch, up to n; 0: there is none.
func (s *expertState) latest(combine bool, n uint8) uint8 {
	for n > 0 && (int(s.kind[n]) == len(expertRoutes)) != combine {
		n--
	}
	return n
}

// place returns where the row of a source is at a rank in dispatch n, or -1.
func (s *expertState) place(n uint8, source, at int) int {
	routes, k := expertRoutes[s.kind[n]-1], 0
	for _, to := range routes[:source] {
		k += int(to >> at & 1)
	}
	if routes[source]>>at&1 == 0 {
		return -1
	}
	return k
}

func experts(f expertFaults) *system[expertState] {
	// dispatches adds what rank r can do in dispatch n, and reports whether that is all.
	dispatches := func(s expertState, r int, n uint8, add adder[expertState]) bool {
		all := true
		for p := range ranks {
			if k := s.place(n, r, p); k >= 0 && s.sent[r]>>p&1 == 0 {
				if all = false; f.eager || reached(s.latest(false, n-1), s.over[0]) {
					to := s
					to.sent[r] |= 1 << p
					if to.flag[p][r] = n; r != few {
						to.row[p][k] = n<<4 | uint8(r)
					}
					add(to, "rank %d sends to rank %d", r, p)
				}
			}
			if k := s.place(n, p, r); k >= 0 {
				all = all && s.flag[r][p] == n && (p != few || s.put[r])
				if p == few && s.flag[r][p] == n && !s.put[r] {
					to := s
					to.row[r][k], to.put[r] = n<<4|few, true
					add(to, "rank %d puts the row of rank %d to its place", r, p)
				}
			}
		}
		return all
	}
	// combines is the same for combine n, up to the reads.
	combines := func(s expertState, r int, n uint8, add adder[expertState]) bool {
		all, rows := true, s.latest(false, n)
		if s.place(rows, few, r) >= 0 && s.sent[r] == 0 {
			if all = false; reached(s.latest(true, n-1), s.over[1]) {
				to := s
				to.sent[r], to.back[r] = 1<<few, n
				add(to, "rank %d returns a packet", r)
			}
		}
		for p := range ranks {
			all = all && (r != few || s.place(rows, r, p) < 0 || s.back[p] == n)
		}
		return all && (r == few || f.unready || reached(n, s.begun))
	}
	return &system[expertState]{start: expertState{call: each[uint8](1)},
		next: func(s expertState, add adder[expertState]) {
			for _, n := range s.call {
				if n <= expertCalls && s.kind[n] == 0 {
					for i := range expertRoutes {
						if to := s; n > 1 || i+1 < len(expertRoutes) { // the first is a dispatch
							to.kind[n] = uint8(i) + 1
							add(to, "operation %d is of kind %d", n, i)
						}
					}
					return
				}
			}
			for r := range ranks {
				n, to := s.call[r], s
				if n > expertCalls {
					continue
				}
				combine, rows := s.latest(true, n) == n, s.latest(false, n-1)
				switch {
				case s.at[r] == 0: // the caller is at work
					for p := 0; p < ranks && rows != 0; p++ {
						if k := s.place(rows, p, r); k >= 0 {
							if to.result[r][k] = n; s.row[r][k] != rows<<4|uint8(p) {
								to.wrong = uint8(r) + 1
							}
						}
					}
					if to.at[r] = 1; combine {
						to.begun[r] = n
					} else if !f.never {
						to.over[0][r] = rows
					}
					add(to, "rank %d begins operation %d", r, n)
				case s.at[r] == 1 && !combine && dispatches(s, r, n, add):
					if to.call[r], to.at[r], to.sent[r], to.put[r] = n+1, 0, 0, false; f.early {
						to.over[0][r] = n
					}
					add(to, "rank %d ends dispatch %d", r, n)
				case s.at[r] == 1 && combine && combines(s, r, n, add):
					for p := range ranks {
						if k := s.place(rows, r, p); k >= 0 && r != few && s.result[p][k] != n {
							to.wrong = uint8(r) + 1
						}
					}
					to.over[1][r], to.at[r] = n, 2
					add(to, "rank %d reads its results", r)
				case s.at[r] == 2 && (f.leaves || reached(n, s.over[1])):
					to.call[r], to.at[r], to.sent[r] = n+1, 0, 0
					add(to, "rank %d ends combine %d", r, n)
				}
			}
		},
		safe: func(s expertState) string { return blame(s.wrong, "rank %d reads rows of another operation") },
		done: func(s expertState) bool { return reached(expertCalls+1, s.call) }}
}

func TestExperts(t *testing.T) {
	holds(t, experts(expertFaults{}), map[string]*system[expertState]{
		"over before the caller: of another operation":  experts(expertFaults{early: true}),
		"never over: nothing can happen":                experts(expertFaults{never: true}),
		"rows at once: of another operation":            experts(expertFaults{eager: true}),
		"results at once: of another operation":         experts(expertFaults{unready: true}),
		"no wait for the readers: of another operation": experts(expertFaults{leaves: true}),
	})
}
