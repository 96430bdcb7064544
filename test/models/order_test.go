package models

import "testing"

// Order: every rank enqueues the operations of a communicator on streams that it chooses, each rank others. A stream
// runs its work in order, streams run beside each other. When the stream changes, the host records an event behind
// the last operation and lets the new stream wait for it (device/cuda, Order). An operation ends when every rank has
// begun it. Property: on every rank the operations begin in the order of their calls, so no rank waits for ever, and no
// two of a rank run at once.

const streams = 2

// entry is something in a stream: an operation (1…epochs), the record of an event or a wait for one (its number).
type entry struct {
	kind  byte // 'o', 'r', 'w'; 0: none
	which uint8
}

const longest = 6 // entries of a stream

type orderState struct {
	called [ranks]uint8
	last   [ranks]uint8 // stream of the latest operation, plus one
	queue  [ranks][streams][longest]entry
	head   [ranks][streams]uint8
	tail   [ranks][streams]uint8
	begun  [ranks]uint8 // bit k-1: operation k has begun
	over   [ranks]uint8
	events [ranks]uint8 // bits of the recorded events
	wrong  uint8
}

type orderFaults struct {
	noEdge bool // the new stream does not wait
	before bool // the event is recorded before the operation
	stale  bool // the new stream waits for the event of the operation before the last
}

func ordered(f orderFaults) *system[orderState] {
	put := func(s *orderState, r, q int, e entry) {
		s.queue[r][q][s.tail[r][q]] = e
		s.tail[r][q]++
	}
	return &system[orderState]{
		next: func(s orderState, add adder[orderState]) {
			for r := range ranks {
				k := s.called[r] + 1
				for q := range streams {
					// Streams are interchangeable: the first operation takes the first. The ranks differ in the others.
					if k > epochs || k == 1 && q > 0 {
						continue
					}
					to := s
					if l := int(s.last[r]) - 1; l >= 0 && l != q && !f.noEdge {
						event := k - 1
						if f.stale && event > 1 {
							event--
						}
						if !f.before {
							put(&to, r, l, entry{'r', k - 1})
						}
						put(&to, r, q, entry{'w', event})
					}
					if f.before {
						put(&to, r, q, entry{'r', k})
					}
					put(&to, r, q, entry{'o', k})
					to.called[r], to.last[r] = k, uint8(q)+1
					add(to, "rank %d calls operation %d on stream %d", r, k, q)
				}
				for q := range streams {
					if s.head[r][q] == s.tail[r][q] {
						continue
					}
					e, to := s.queue[r][q][s.head[r][q]], s
					bit := uint8(1) << (e.which - 1)
					switch e.kind {
					case 'r':
						to.events[r] |= bit
						to.head[r][q]++
						add(to, "rank %d: the event of operation %d is recorded", r, e.which)
					case 'w':
						if s.events[r]&bit != 0 {
							to.head[r][q]++
							add(to, "rank %d: stream %d goes on behind operation %d", r, q, e.which)
						}
					case 'o':
						if s.begun[r]&bit == 0 {
							if to.begun[r] |= bit; s.over[r] != bit-1 { // all before it have ended
								to.wrong = uint8(r) + 1
							}
							add(to, "rank %d begins operation %d", r, e.which)
							continue
						}
						together := true
						for p := range ranks {
							together = together && s.begun[p]&bit != 0
						}
						if together {
							to.over[r] |= bit
							to.head[r][q]++
							add(to, "rank %d ends operation %d", r, e.which)
						}
					}
				}
			}
		},
		safe: func(s orderState) string {
			return blame(s.wrong, "rank %d begins an operation before an earlier one has ended")
		},
		done: func(s orderState) bool {
			for r := range ranks {
				if s.over[r] != 1<<epochs-1 {
					return false
				}
			}
			return true
		}}
}

func TestOrder(t *testing.T) {
	holds(t, ordered(orderFaults{}), map[string]*system[orderState]{
		"no edge: before an earlier one has ended":         ordered(orderFaults{noEdge: true}),
		"recorded too early: before an earlier":            ordered(orderFaults{before: true}),
		"the wrong event: before an earlier one has ended": ordered(orderFaults{stale: true}),
	})
}
