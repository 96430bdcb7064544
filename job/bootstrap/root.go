package bootstrap

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/internal/sockets"
)

// root brings the ranks of one job together and then ends. It runs in the process that made the id, or in rank 0's.
//
//  1. The acceptor admits authenticated ranks; each is recorded in members.
//  2. Each rank sends its listening addresses. When all have arrived: close the listeners, send the table to all
//     ranks.
//  3. A rank whose mesh is up reports ready and the ranks that it met on this host. When all are ready: send go with
//     the hosts to all ranks, to the root's own process last, and end.
//
// A rank that hangs up or gives up before go fails the job: all others at once get the rank and the reason. The job
// also fails if a rank claims a different world size than the others, or an occupied rank: some rank is then missing
// for good. While ranks are missing, every rank gets their list four times a second; that also detects a host that has
// vanished. A root that failed before all ranks joined stays for a while and sends the reason to late ranks; see
// late_error.go.
type root struct {
	c        *config
	acceptor *acceptor
	address  string
	made     time.Time
	process  [16]byte
	done     chan struct{} // closed when all resources of the root are freed
	wg       sync.WaitGroup

	mu        sync.Mutex
	rank      int // a rank in this process; -1: unknown, or none
	world     int
	pinned    bool // world does not come from the first rank's claim only
	attempt   attempt
	members   map[int]*rootMember
	ready     int
	phase     rootPhase
	ended     chan struct{} // closed on reaching phaseOver
	lateError lateError
	tree      rootTree
}

type rootPhase int

const (
	phaseJoin rootPhase = iota
	phaseMesh
	phaseOver
)

type rootMember struct {
	rank  int
	from  origin
	fc    *frameConn
	info  *member // nil until received
	ready bool
	here  [32]byte // set with ready: a digest of the ranks met on its host
	// Of a job that joins over a tree: the rank below whose connection it is (nil: the root's), and it is there.
	parent   *rootMember
	attached bool
}

const (
	statusInterval = 250 * time.Millisecond
	rootLinger     = 2 * time.Second
	releaseWait    = 500 * time.Millisecond // for ranks that come after one of another release
)

func newRoot(c *config, ls []net.Listener, secret []byte, address string, a attempt) *root {
	r := &root{
		made: time.Now(),
		c:    c, rank: -1, address: address, process: [16]byte(processID()), done: make(chan struct{}),
		ended: make(chan struct{}),
		world: c.world, pinned: c.world > 0, attempt: a, members: map[int]*rootMember{}, lateError: newLateError(),
	}
	_, _ = rand.Read(r.tree.session[:]) // never fails
	r.tree.free = []freePlace{{nil, treeWidth}}
	r.acceptor = &acceptor{listeners: ls, secret: secret, greet: r.greet, admit: r.admit, enter: r.enter,
		abandon: r.abandon, starved: r.starved, log: c.log.With("root", address), room: r.room, pending: fewPending()}
	return r
}

// serve starts the root; ended is called when it is over.
func (r *root) serve(ended func()) {
	r.acceptor.serve()
	go func() {
		r.supervise()
		ended()
		close(r.done)
	}()
}

// supervise sends the status, enforces the lifetime of an unused root, and cleans up.
func (r *root) supervise() {
	unused := time.NewTimer(r.c.rootLife)
	defer unused.Stop()
	tick := time.NewTicker(statusInterval)
	defer tick.Stop()
	for over := false; !over; {
		select {
		case <-r.ended:
			over = true
		case <-tick.C:
			r.sendStatus()
		case <-unused.C:
			if !r.joined() {
				r.fail(-1, verdictOK, fmt.Sprintf("nobody joined within %v", r.c.rootLife))
			}
		}
	}
	// Every rank hangs up after go or a failure; close the connections of those that do not.
	linger := time.AfterFunc(rootLinger, func() {
		for _, m := range r.snapshot() {
			m.fc.close()
		}
	})
	r.serveLateError()
	r.acceptor.shut()
	r.acceptor.wait()
	linger.Reset(rootLinger)
	r.wg.Wait()
	linger.Stop()
}

func (r *root) greet() greeting {
	r.mu.Lock()
	defer r.mu.Unlock()
	return greeting{role: roleRoot, rank: int32(r.rank), world: uint32(r.world), session: r.attempt}
}

func (r *root) admit(g greeting) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if g.version != protocolVersion {
		err := releaseError(fmt.Sprintf("rank %d", g.rank), g.version, "the root")
		time.AfterFunc(releaseWait, func() { r.fail(int(g.rank), verdictProtocol, err.Error()) })
		return verdictProtocol
	}
	if attempt(g.session) != r.attempt {
		return verdictAttempt
	}
	if g.world == 0 || g.world > MaxWorldSize {
		return verdictWorld
	}
	if r.world != 0 && int(g.world) != r.world {
		r.mismatch(int(g.rank), g.from, int(g.world))
		return verdictWorld
	}
	if g.rank < 0 || g.rank >= int32(g.world) {
		return verdictRange
	}
	if r.phase == phaseOver && r.lateError.text != nil {
		return verdictOK // admitted, to get the late error
	}
	if m := r.members[int(g.rank)]; m != nil {
		r.failLocked(m.rank, verdictDuplicate,
			fmt.Sprintf("rank %d is claimed by %v and by %v; give every process a rank of its own", m.rank, m.from, g.from))
		return verdictDuplicate
	}
	if r.phase != phaseJoin {
		return verdictProtocol
	}
	r.world = int(g.world)
	r.members[int(g.rank)] = &rootMember{rank: int(g.rank), from: g.from}
	return verdictOK
}

// mismatch fails the job because a rank claims a different world size than earlier ranks, or than configured.
func (r *root) mismatch(rank int, from origin, world int) {
	others := "the root was told"
	if len(r.members) > 0 {
		first := r.members[slices.Min(slices.Collect(maps.Keys(r.members)))]
		others = fmt.Sprintf("rank %d (%v) says", first.rank, first.from)
	}
	r.failLocked(rank, verdictWorld, fmt.Sprintf("rank %d (%v) says that the job has %d ranks, %s %d", rank, from, world,
		others, r.world))
}

func (r *root) abandon(g greeting) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == phaseJoin {
		delete(r.members, int(g.rank))
		r.forgetWorld()
	}
}

// forgetWorld lets the next rank set the world size if no rank that claimed it is left.
func (r *root) forgetWorld() {
	if len(r.members) == 0 && !r.pinned {
		r.world = 0
	}
}

// pin sets the world size given by a rank in this process.
func (r *root) pin(rank, world int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rank < 0 {
		r.rank = rank
	}
	if r.phase != phaseJoin {
		return
	}
	if r.world != 0 && r.world != world {
		r.mismatch(rank, ownOrigin(), world)
	}
	r.pinned, r.world = true, world
}

// starved fails the job: this process cannot accept more ranks.
func (r *root) starved(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(r.rank, verdictGaveUp, "the root's process cannot accept connections: "+err.Error())
}

func (r *root) enter(fc *frameConn, g greeting) {
	sockets.Tune(fc.c, r.c.partition)
	r.mu.Lock()
	if r.phase == phaseOver && r.lateError.text != nil {
		r.wg.Go(func() { r.read(fc, int(g.rank)) })
		r.mu.Unlock()
		return
	}
	m := r.members[int(g.rank)]
	if m == nil {
		r.mu.Unlock()
		fc.close()
		return
	}
	m.fc = fc
	r.mu.Unlock()
	r.wg.Go(func() {
		defer fc.close()
		r.hear(m, fc)
	})
}

// hear serves one rank's connection until the rank hangs up.
func (r *root) hear(m *rootMember, fc *frameConn) {
	_ = fc.c.SetReadDeadline(time.Now().Add(r.c.timeout))
	for {
		h, data, err := fc.read()
		if err == nil {
			err = r.handle(m, h, data)
		}
		if err == errDetached {
			return
		}
		if err != nil {
			r.mu.Lock()
			quiet := r.phase == phaseOver
			r.mu.Unlock()
			if !quiet {
				r.fail(m.rank, verdictOK, fmt.Sprintf("rank %d was lost while joining: %v", m.rank, err))
			}
			return
		}
	}
}

func (r *root) handle(m *rootMember, h header, data []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.space > 0 { // from a rank below
		if m = r.members[int(h.space)-1]; m == nil || m.info == nil {
			return fmt.Errorf("%w: a frame of rank %d", ErrProtocol, h.space-1)
		}
	}
	switch {
	case h.kind == frameJoin && m.info == nil && r.phase == phaseJoin:
		info, err := decodeMember(data)
		if err != nil {
			return err
		}
		_ = m.fc.c.SetReadDeadline(time.Time{})
		m.info = &info
		if r.isTree() {
			r.tree.waiting = append(r.tree.waiting, m)
			r.place()
		} else {
			r.startMesh()
		}
	case h.kind == frameAttached && m.info != nil && !m.attached && r.phase == phaseJoin:
		return r.attach(m)
	case h.kind == frameLost && r.phase != phaseOver:
		r.failLocked(m.rank, verdictOK, fmt.Sprintf("rank %d was lost while joining: %s", m.rank,
			data[:min(len(data), maxFailureText)]))
	case h.kind == frameReady && !m.ready && r.phase == phaseMesh:
		if len(data) != len(m.here) {
			return fmt.Errorf("%w: ready with %d bytes", ErrProtocol, len(data))
		}
		m.ready, m.here = true, [32]byte(data)
		if r.ready++; r.ready == r.world {
			r.broadcast(frameGo, encodeHosts(r.hosts()))
			r.over()
		}
	case h.kind == frameGiveUp:
		text := fmt.Sprintf("rank %d gave up: %s", m.rank, data[:min(len(data), maxFailureText)])
		if h.tag != giveUpTimeout {
			r.failLocked(m.rank, verdictGaveUp, text)
			break
		}
		// The missing ranks are to blame, not the rank that reports the timeout.
		missing := r.missing()
		if len(missing) == 1 {
			r.failLocked(missing[0], verdictTimeout, text)
		} else {
			r.failLocked(-1, verdictTimeout, text)
		}
	default:
		return fmt.Errorf("%w: frame kind %d out of turn", ErrProtocol, h.kind)
	}
	return nil
}

// hosts numbers the ranks' hosts by first appearance. Ranks are on one host if each has met all others of it there, so
// their digests are equal.
func (r *root) hosts() []int {
	number := map[[32]byte]int{}
	hosts := make([]int, r.world)
	for rank := range hosts {
		here := r.members[rank].here
		if _, ok := number[here]; !ok {
			number[here] = len(number)
		}
		hosts[rank] = number[here]
	}
	return hosts
}

// missing lists the ranks that the job waits for.
func (r *root) missing() []int {
	return missingRanks(r.world, func(rank int) bool {
		m := r.members[rank]
		return m != nil && m.info != nil && (r.phase == phaseJoin || m.ready)
	})
}

// fail ends the job before it has started.
func (r *root) fail(rank int, v verdict, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(rank, v, text)
}

func (r *root) failLocked(rank int, v verdict, text string) {
	if r.phase == phaseOver {
		return
	}
	r.c.log.Warn("bootstrap: the job did not come up", "root", r.address, "rank", rank, "reason", text)
	data := rootFailure{peer: int32(rank), verdict: v, text: text}.encode()
	r.broadcast(frameFail, data)
	if r.phase == phaseJoin {
		r.lateError.text = data
	}
	r.over()
}

func (r *root) over() {
	r.phase = phaseOver
	close(r.ended)
}

// joined reports whether a rank has joined.
func (r *root) joined() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.members) > 0
}

// expected reports whether a rank of the root's own process is about to join.
func (r *root) expected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pinned
}

func (r *root) snapshot() []*rootMember {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(mapValues(r.members), func(m *rootMember) bool { return m.fc == nil })
}

func mapValues[K comparable, V any](m map[K]V) []V {
	out := make([]V, 0, len(m))
	for _, v := range m {
		out = append(out, v)
	}
	return out
}
