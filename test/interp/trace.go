package interp

import "slices"

// trace records, for one run, which steps depend on which, with vector clocks over the actors. Explore uses it.
// Otherwise it is nil, and its methods do nothing.
//
// Two kinds of edges order steps. An edge of learn cannot be reversed: the earlier step enabled the later one. An edge
// of access can be reversed if nothing else orders the two steps: that is a race, and Explore runs the other order.
type trace struct {
	m      *machine
	known  [][]int32 // by actor: how many steps of every actor precede its next one
	steps  []traced
	actor  int     // the actor of the current step
	what   place   // its position at the start of the step
	now    []int32 // clock of the current step
	before []int32 // clock of its actor at the start, joined with what enabled the step
	first  map[object]*history
	points map[point][]int32
	race   func(earlier int, o object)

	semAcquired, semReleased map[[2]int]int
}

// traced is a completed step.
type traced struct {
	actor int
	index int32 // number among the actor's steps, from 1
	clock []int32
	what  place
}

// object is something that two steps can conflict on.
type object struct {
	kind objectKind
	a    int   // rank or link
	at   int64 // granule or byte
}

type objectKind uint8

const (
	userOf    objectKind = iota // input and output of a rank
	scratchOf                   // scratch of a rank
	signalsOf                   // the order in which signals arrive at a link
	waitsOf                     // the order in which waits consume them
	pushesOf                    // the order in which transfers enter a port channel
	packetsOf                   // the order in which equal packets are stored
	acquiresOf
	releasesOf
)

// data reports whether races on the object are races on bytes.
func (o object) data() bool { return o.kind <= scratchOf }

type history struct {
	write int   // the last step that wrote; -1: none
	reads []int // steps that have read since then, at most one for each actor
}

// point identifies where the clocks of arriving steps are joined, for later steps to receive.
type point struct {
	kind    pointKind
	a, b, n int
}

type pointKind uint8

const (
	meetingAt pointKind = iota
	barrierAt
	signalAt
	releaseAt
	transferAt
	transferredAt
)

func newTrace(m *machine, actors int) *trace {
	t := &trace{m: m, first: map[object]*history{}, points: map[point][]int32{}, semAcquired: map[[2]int]int{},
		semReleased: map[[2]int]int{}}
	for range actors {
		t.known = append(t.known, make([]int32, actors))
	}
	t.now, t.before = make([]int32, actors), make([]int32, actors)
	return t
}

// start begins a step of an actor. finish keeps it, if there was progress.
func (t *trace) start(actor int, at place) {
	t.what = at
	t.actor = actor
	copy(t.now, t.known[actor])
	copy(t.before, t.known[actor])
	t.now[actor]++
}

func (t *trace) finish(actor int) {
	copy(t.known[actor], t.now)
	t.steps = append(t.steps, traced{actor: actor, index: t.now[actor], clock: append([]int32(nil), t.now...),
		what: t.what})
}

func join(to, from []int32) {
	for i, v := range from {
		to[i] = max(to[i], v)
	}
}

// knows reports whether clock covers step i.
func (t *trace) knows(clock []int32, i int) bool {
	s := &t.steps[i]
	return clock[s.actor] >= s.index
}

// arrive adds the current step to a point. learn orders the current step after all that have arrived there.
func (t *trace) arrive(p point) {
	if t == nil {
		return
	}
	at := t.points[p]
	if at == nil {
		at = make([]int32, len(t.now))
		t.points[p] = at
	}
	join(at, t.now)
}

func (t *trace) learn(p point) {
	if t == nil {
		return
	}
	if at := t.points[p]; at != nil {
		join(t.now, at)
		join(t.before, at)
	}
}

func (t *trace) read(o object, awaited bool) { t.access(o, false, awaited) }

func (t *trace) write(o object) { t.access(o, true, false) }

// touch records an access by an operation that commutes with no other operation on the object.
func (t *trace) touch(o object) { t.access(o, true, false) }

// repeat records that the current step stores bytes equal to the present ones: later writes conflict with it.
func (t *trace) repeat(o object) {
	h := t.first[o]
	if self := len(t.steps); !slices.Contains(h.reads, self) {
		h.reads = append(h.reads, self)
	}
}

// access orders the current step after earlier conflicting ones. An awaited read could not have preceded the last
// write. (If two writes could each have enabled it, those two conflict, and Explore tries both orders.)
func (t *trace) access(o object, write, awaited bool) {
	if t == nil {
		return
	}
	h := t.first[o]
	if h == nil {
		h = &history{write: -1}
		t.first[o] = h
	}
	self := len(t.steps)
	conflict := func(i int) {
		if i < 0 || i == self {
			return
		}
		if !awaited && !t.knows(t.before, i) {
			t.race(i, o)
		}
		join(t.now, t.steps[i].clock)
		if awaited {
			join(t.before, t.steps[i].clock)
		}
	}
	conflict(h.write)
	if !write {
		for _, i := range h.reads {
			if i == self {
				return
			}
		}
		h.reads = append(h.reads, self)
		return
	}
	for _, i := range h.reads {
		conflict(i)
	}
	h.write, h.reads = self, h.reads[:0]
}

// release records a release of a semaphore. The n-th acquire beyond the initial value is ordered after the n-th
// release.
func (t *trace) release(rank, id int) {
	if t == nil {
		return
	}
	k := [2]int{rank, id}
	t.touch(object{kind: releasesOf, a: rank, at: int64(id)})
	t.arrive(point{releaseAt, rank, id, t.semReleased[k]})
	t.semReleased[k]++
}

func (t *trace) acquire(rank, id int) {
	if t == nil {
		return
	}
	k := [2]int{rank, id}
	t.touch(object{kind: acquiresOf, a: rank, at: int64(id)})
	if n := t.semAcquired[k] - t.m.p.GPUs[rank].Semaphores[id].InitValue; n >= 0 {
		t.learn(point{releaseAt, rank, id, n})
	}
	t.semAcquired[k]++
}

// between records the caller's step after a launch: it is ordered after all the rank's blocks and transfers, and uses
// both buffers.
func (t *trace) between(r *rankState) {
	if t == nil {
		return
	}
	for _, a := range t.m.ofRank(r) {
		join(t.now, t.known[a])
		join(t.before, t.known[a])
	}
	t.buffers(r)
}

// begin records that the caller has set up the buffers for the next launch. The blocks of the rank are ordered after
// it.
func (t *trace) begin(r *rankState) {
	if t == nil {
		return
	}
	t.buffers(r)
	for _, a := range t.m.ofRank(r) {
		join(t.known[a], t.now)
	}
}

func (t *trace) buffers(r *rankState) {
	t.m.user(r.rank, r.inputAt, int64(len(r.input)), true)
	t.m.user(r.rank, r.outputAt, int64(len(r.output)), true)
}

// ofRank lists the threads and port queues of a rank.
func (m *machine) ofRank(r *rankState) []int {
	var out []int
	for _, b := range r.blocks {
		for _, l := range b.threads {
			out = append(out, l.actor)
		}
	}
	for _, q := range m.ports {
		if m.links.All[q.link].Rank == r.rank {
			out = append(out, q.actor)
		}
	}
	return out
}
