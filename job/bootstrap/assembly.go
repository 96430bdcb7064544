package bootstrap

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"github.com/goccl/goccl/internal/plain"
)

// assembly brings the ranks of one job together. It is a pure state machine: root passes it what ranks send, and sends
// the frames in out. testdata/assembly*.txt shows it at work.
//
//  1. A rank is admitted and sends its addresses (frameJoin). It gets a parent (frameParent), connects to it, says so
//     (frameAttached), and its connection to the root ends. Only a rank that has said so becomes a parent. The root
//     itself is the parent of all ranks of a small job. Of a large job it keeps the first treeWidth ranks, so that no
//     process needs a descriptor for each rank. What the root sends goes down this tree, and what ranks send goes up.
//  2. When all ranks are attached, all get the table.
//  3. A rank that is connected to its neighbours reports ready and its host. When all are ready, all get go with the
//     hosts.
//
// A rank that is lost or gives up before go fails the job: all others at once get the rank and the reason. The job
// also fails if a rank claims a different world size than the others, or an occupied rank: some rank is then missing
// for good. Ranks that come after a failure get the reason, too.
type assembly struct {
	// rank is a rank in the root's process, which has this id; -1: unknown, or none.
	rank    int
	process [16]byte
	// world is the number of ranks; 0 until a rank claims it, or pin gives it. pinned: it does not come from a claim.
	world      int
	pinned     bool
	sparseFrom int
	attempt    attempt
	session    [16]byte // It ties the connections between ranks to this job.
	// members are the admitted ranks. In phaseTable and later they are all ranks, unless the job has failed.
	members map[int]*rootMember
	// waiting are the members without a parent, in the order of joining. free are the places for them in a large job,
	// in the order of becoming a parent. At most one of both has entries.
	waiting []*rootMember
	free    []freePlace
	places  int // The number of ranks below each parent.
	ready   int // The number of members that are ready.
	phase   rootPhase
	// failure is the encoded reason, if the job failed in phaseJoin. told are the late ranks that have got it.
	failure []byte
	told    map[int]bool
	// problem describes the failure for the log.
	problem rootFailure
	out     []rootSend
}

type rootPhase int

const (
	phaseJoin rootPhase = iota
	phaseTable
	phaseOver
)

type rootMember struct {
	rank int
	from origin
	// connected: the root has a connection to it. It ends when the member is attached to a parent other than the root.
	connected bool
	info      *member // nil until received.
	attached  bool    // It has its place in the tree, so info is set.
	ready     bool    // It is connected to its neighbours.
	here      [32]byte
	parent    *rootMember // The member below which its place is; nil: the root.
}

type freePlace struct {
	parent *rootMember // nil: the root
	places int
}

// rootSend is a frame for a member, or for all below a branch.
type rootSend struct {
	to   int
	kind frameKind
	data []byte
}

// treeWidth is the number of ranks below each parent.
const treeWidth = 16

// errDetached ends the service of a connection that is no longer needed.
var errDetached = errors.New("detached")

func newAssembly(c *config, a attempt) *assembly {
	s := &assembly{rank: -1, process: [16]byte(processID()), world: c.world, pinned: c.world > 0, attempt: a,
		sparseFrom: c.sparseFrom, members: map[int]*rootMember{}, told: map[int]bool{}, places: treeWidth,
		free: []freePlace{{nil, treeWidth}}}
	_, _ = rand.Read(s.session[:]) // never fails
	return s
}

// take returns the frames to send since the last call.
func (a *assembly) take() []rootSend {
	list := a.out
	a.out = nil
	return list
}

// broadcast sends to every connected member. Members in the root's own process come last, because after it they may end
// the process.
func (a *assembly) broadcast(kind frameKind, data []byte) {
	var own []rootSend
	for _, rank := range slices.Sorted(maps.Keys(a.members)) {
		m := a.members[rank]
		switch s := (rootSend{rank, kind, data}); {
		case !m.connected:
		case m.info != nil && m.info.process == a.process:
			own = append(own, s)
		default:
			a.out = append(a.out, s)
		}
	}
	a.out = append(a.out, own...)
}

func (a *assembly) admit(g greeting) verdict {
	switch {
	case attempt(g.session) != a.attempt:
		return verdictAttempt
	case g.world == 0 || g.world > MaxWorldSize:
		return verdictWorld
	case a.world != 0 && int(g.world) != a.world:
		a.mismatch(int(g.rank), g.from, int(g.world))
		return verdictWorld
	case g.rank < 0 || g.rank >= int32(g.world):
		return verdictRange
	case a.isLate():
		return verdictOK // admitted, to get the failure
	}
	if m := a.members[int(g.rank)]; m != nil {
		a.fail(m.rank, verdictDuplicate,
			fmt.Sprintf("rank %d is claimed by %v and by %v; give every process another rank", m.rank, m.from, g.from))
		return verdictDuplicate
	}
	if a.phase != phaseJoin {
		return verdictProtocol
	}
	a.world = int(g.world)
	a.members[int(g.rank)] = &rootMember{rank: int(g.rank), from: g.from}
	return verdictOK
}

// isLate returns true if the job has failed and late ranks get the reason.
func (a *assembly) isLate() bool { return a.phase == phaseOver && a.failure != nil }

// mismatch fails the job because a rank claims a different world size than earlier ranks, or than configured.
func (a *assembly) mismatch(rank int, from origin, world int) {
	others := "the root was told"
	if len(a.members) > 0 {
		first := a.members[slices.Min(slices.Collect(maps.Keys(a.members)))]
		others = fmt.Sprintf("rank %d (%v) says", first.rank, first.from)
	}
	a.fail(rank, verdictWorld, fmt.Sprintf("rank %d (%v) says that the job has %d ranks, %s %d", rank, from, world,
		others, a.world))
}

// abandon forgets a rank that was admitted and whose handshake has failed. If no rank is left that claimed the world
// size, the next rank sets it.
func (a *assembly) abandon(rank int) {
	if a.phase != phaseJoin {
		return
	}
	delete(a.members, rank)
	if len(a.members) == 0 && !a.pinned {
		a.world = 0
	}
}

// pin sets the world size given by a rank in the root's process.
func (a *assembly) pin(rank, world int) {
	if a.rank < 0 {
		a.rank = rank
	}
	if a.phase != phaseJoin {
		return
	}
	if a.world != 0 && a.world != world {
		a.mismatch(rank, ownOrigin(), world)
	}
	a.pinned, a.world = true, world
}

// enter says that an admitted rank is connected. It returns false if the rank is not a member any more.
func (a *assembly) enter(rank int) bool {
	m := a.members[rank]
	if m != nil {
		m.connected = true
	}
	return m != nil
}

// receive takes a frame from the connection of rank. Its space names the rank below that it is about, plus one; 0 is
// the rank itself.
func (a *assembly) receive(rank int, h header, data []byte) error {
	m := a.members[rank]
	if h.space > 0 {
		if m = a.members[int(h.space)-1]; m == nil || m.info == nil {
			return fmt.Errorf("%w: a frame of rank %d", ErrProtocol, h.space-1)
		}
	}
	switch {
	case h.kind == frameJoin && m.info == nil && a.phase == phaseJoin:
		info, err := decodeMember(data)
		if err != nil {
			return err
		}
		m.info = &info
		a.waiting = append(a.waiting, m)
		a.place()
	case h.kind == frameAttached && m.info != nil && !m.attached && a.phase == phaseJoin:
		return a.attach(m)
	case h.kind == frameLost && a.phase != phaseOver:
		a.lost(m.rank, string(data))
	case h.kind == frameReady && !m.ready && a.phase == phaseTable:
		if len(data) != len(m.here) {
			return fmt.Errorf("%w: ready with %d bytes", ErrProtocol, len(data))
		}
		m.ready, m.here = true, [32]byte(data)
		if a.ready++; a.ready == a.world {
			a.broadcast(frameGo, encodeHosts(a.hosts()))
			a.phase = phaseOver
		}
	case h.kind == frameGiveUp:
		a.gaveUp(m.rank, h.tag == giveUpTimeout, string(data))
	default:
		return fmt.Errorf("%w: frame kind %d out of turn", ErrProtocol, h.kind)
	}
	return nil
}

// place gives parents to the ranks that wait for one, as long as there are places.
func (a *assembly) place() {
	for ; len(a.waiting) > 0 && (len(a.free) > 0 || !a.isLarge()); a.waiting = a.waiting[1:] {
		m := a.waiting[0]
		way := treeParent{session: a.session, rank: -1}
		if a.isLarge() {
			p := &a.free[0]
			if m.parent = p.parent; p.parent != nil {
				way.rank, way.member = int32(p.parent.rank), *p.parent.info
			}
			if p.places--; p.places == 0 {
				a.free = a.free[1:]
			}
		}
		a.out = append(a.out, rootSend{m.rank, frameParent, plain.Bytes(&way)})
	}
}

// isLarge returns true if the root does not keep the connections of all ranks.
func (a *assembly) isLarge() bool { return a.world >= a.sparseFrom }

// attach records that a rank has its place, and sends the table when all have.
func (a *assembly) attach(m *rootMember) (err error) {
	m.attached = true
	a.free = append(a.free, freePlace{m, a.places})
	a.place()
	if m.parent != nil {
		m.connected, err = false, errDetached
	}
	if len(missingRanks(a.world, func(r int) bool { return a.members[r] != nil && a.members[r].attached })) > 0 {
		return err
	}
	a.phase = phaseTable
	t := table{session: a.session, members: make([]member, a.world)}
	for i := range t.members {
		t.members[i] = *a.members[i].info
	}
	a.broadcast(frameTable, t.encode())
	return err
}

// hosts numbers the ranks' hosts by first appearance. Ranks are on one host if their digests are equal.
func (a *assembly) hosts() []int {
	number := map[[32]byte]int{}
	hosts := make([]int, a.world)
	for rank := range hosts {
		here := a.members[rank].here
		if _, ok := number[here]; !ok {
			number[here] = len(number)
		}
		hosts[rank] = number[here]
	}
	return hosts
}

// gaveUp takes the word of a rank that stops joining. If that is for a timeout, the missing ranks are to blame.
func (a *assembly) gaveUp(rank int, timeout bool, why string) {
	text := fmt.Sprintf("rank %d gave up: %s", rank, why[:min(len(why), maxFailureText)])
	switch missing := a.missing(); {
	case !timeout:
		a.fail(rank, verdictGaveUp, text)
	case len(missing) == 1:
		a.fail(missing[0], verdictTimeout, text)
	default:
		a.fail(-1, verdictTimeout, text)
	}
}

func (a *assembly) lost(rank int, why string) {
	a.fail(rank, verdictOK, fmt.Sprintf("rank %d was lost while joining: %s", rank, why[:min(len(why), maxFailureText)]))
}

// missing lists the ranks that the job waits for.
func (a *assembly) missing() []int {
	return missingRanks(a.world, func(rank int) bool {
		m := a.members[rank]
		return m != nil && m.info != nil && (a.phase == phaseJoin || m.ready)
	})
}

// status tells the ranks which ranks are missing.
func (a *assembly) status() {
	if a.phase == phaseOver {
		return
	}
	s := rootStatus{rootRank: int32(a.rank), missing: a.missing()}
	s.total = len(s.missing)
	for _, rank := range slices.Sorted(maps.Keys(a.members)) {
		if m := a.members[rank]; m.info != nil && m.connected {
			a.out = append(a.out, rootSend{rank, frameStatus, s.encode()})
		}
	}
}

// arriving counts the connections of ranks that are getting a parent in a large job.
func (a *assembly) arriving() (count int) {
	for _, m := range a.members {
		if a.isLarge() && a.phase == phaseJoin && m.connected && !m.attached {
			count++
		}
	}
	return count
}

// fail ends the job before it has started.
func (a *assembly) fail(rank int, v verdict, text string) {
	if a.phase == phaseOver {
		return
	}
	a.problem = rootFailure{peer: int32(rank), verdict: v, text: text}
	data := a.problem.encode()
	a.broadcast(frameFail, data)
	if a.phase == phaseJoin {
		a.failure = data
	}
	a.phase = phaseOver
}

// untold counts the ranks that had not joined when the job failed and have not got the reason since.
func (a *assembly) untold() int {
	return len(missingRanks(a.world, func(rank int) bool {
		m := a.members[rank]
		return m != nil && (m.connected || m.attached) || a.told[rank]
	}))
}

// treeParent tells a rank its parent (rank -1: the root) and the session of the job, in the form that it has on the
// wire.
type treeParent struct {
	session [16]byte
	rank    int32
	member  member
}

func decodeParent(b []byte, world int) (p treeParent, err error) {
	if len(b) != int(unsafe.Sizeof(p)) {
		return p, fmt.Errorf("%w: a parent of %d bytes", ErrProtocol, len(b))
	}
	if p = plain.Read[treeParent](b); p.rank < -1 || int(p.rank) >= world {
		return p, fmt.Errorf("%w: rank %d as a parent", ErrProtocol, p.rank)
	}
	return p, nil
}
