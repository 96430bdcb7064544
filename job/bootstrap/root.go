package bootstrap

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/goccl/goccl/internal/sockets"
)

// root carries out what the assembly of a job decides, and then ends. It runs in the process that made the id, or in
// rank 0's.
//
// While ranks are missing, every rank gets their list four times a second; that also detects a host that has vanished.
//
// A root that failed before all ranks joined stays until every rank of the job has got the reason, at most for
// lateErrorLife; UniqueID.Close ends it, too. Without it late ranks would only find that the address refuses
// connections. A root at an agreed address does not stay: the next attempt may need that address, and its ranks must
// not get this failure.
type root struct {
	c        *config
	acceptor *acceptor
	address  string
	made     time.Time
	leave    func()        // Ends the stay for late ranks.
	left     chan struct{} // Closed by leave.
	ended    chan struct{} // Closed when the assembly is over.
	told     chan struct{} // Closed when every rank knows of the failure.
	done     chan struct{} // Closed when all resources of the root are freed.
	wg       sync.WaitGroup

	mu    sync.Mutex
	a     *assembly
	conns map[int]*frameConn // The connections of members that are connected.
}

const (
	statusInterval = 250 * time.Millisecond
	rootLinger     = 2 * time.Second
	releaseWait    = 500 * time.Millisecond // for ranks that come after one of another release
	lateErrorLife  = 30 * time.Second
	// mostArriving bounds the connections of ranks that are getting a parent.
	mostArriving = 32
)

func newRoot(c *config, ls []net.Listener, secret []byte, address string, a attempt) *root {
	r := &root{made: time.Now(), c: c, address: address, ended: make(chan struct{}), told: make(chan struct{}),
		left: make(chan struct{}), done: make(chan struct{}), a: newAssembly(c, a), conns: map[int]*frameConn{}}
	r.leave = sync.OnceFunc(func() { close(r.left) })
	r.acceptor = &acceptor{listeners: ls, secret: secret, greet: r.greet, admit: r.admit, enter: r.enter,
		abandon: func(g greeting) { r.step(func(a *assembly) { a.abandon(int(g.rank)) }) },
		starved: func(err error) { // this process cannot accept more ranks
			r.step(func(a *assembly) {
				a.fail(a.rank, verdictGaveUp, "the root's process cannot accept connections: "+err.Error())
			})
		},
		log: c.log.With("root", address), room: r.room, pending: fewPending()}
	return r
}

// step passes an event to the assembly and carries out its decisions.
func (r *root) step(event func(a *assembly)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.a.phase
	event(r.a)
	r.send(r.a.take())
	if r.a.phase == before {
		return
	}
	if r.a.phase == phaseTable {
		r.acceptor.shut()
	}
	if r.a.phase == phaseOver {
		if p := r.a.problem; p.text != "" {
			r.c.log.Warn("bootstrap: the job did not come up", "root", r.address, "rank", p.peer, "reason", p.text)
		}
		close(r.ended)
	}
}

// send sends frames in order. A large table may block until the member reads it, because it exceeds the socket buffer;
// so each large frame is sent by its own goroutine, but after the frames for other processes.
func (r *root) send(list []rootSend) {
	var others sync.WaitGroup
	for _, s := range list {
		fc := r.conns[s.to]
		m := r.a.members[s.to]
		own := m != nil && m.info != nil && m.info.process == r.a.process
		write := func() { _ = fc.within(r.c.timeout, s.kind, 0, 0, s.data) }
		switch {
		case fc == nil:
		case len(s.data) <= 4<<10:
			write()
		case own:
			r.wg.Go(func() {
				others.Wait()
				write()
			})
		default:
			others.Add(1)
			r.wg.Go(func() {
				defer others.Done()
				write()
			})
		}
	}
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
	unused := time.After(r.c.rootLife)
	tick := time.Tick(statusInterval)
	for over := false; !over; {
		select {
		case <-r.ended:
			over = true
		case <-tick:
			r.step((*assembly).status)
		case <-unused:
			if !r.joined() {
				r.fail(-1, verdictOK, fmt.Sprintf("nobody joined within %v", r.c.rootLife))
			}
		}
	}
	// Every rank hangs up after go or a failure; close the connections of those that do not.
	linger := time.AfterFunc(rootLinger, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, fc := range r.conns {
			fc.close()
		}
	})
	r.mu.Lock()
	stay := r.a.isLate() && r.a.world > 0 && r.a.untold() > 0
	r.mu.Unlock()
	if stay {
		select {
		case <-r.told:
		case <-r.left:
		case <-time.After(min(r.c.lateLife, r.c.rootLife)):
		}
	}
	r.acceptor.shut()
	r.acceptor.wait()
	linger.Reset(rootLinger)
	r.wg.Wait()
	linger.Stop()
}

func (r *root) greet() greeting {
	r.mu.Lock()
	defer r.mu.Unlock()
	return greeting{role: roleRoot, rank: int32(r.a.rank), world: uint32(r.a.world), session: r.a.attempt}
}

func (r *root) admit(g greeting) (v verdict) {
	if g.version != protocolVersion {
		err := releaseError(fmt.Sprintf("rank %d", g.rank), g.version, "the root")
		time.AfterFunc(releaseWait, func() { r.fail(int(g.rank), verdictProtocol, err.Error()) })
		return verdictProtocol
	}
	r.step(func(a *assembly) { v = a.admit(g) })
	return v
}

// enter serves the connection of a rank that was admitted.
func (r *root) enter(fc *frameConn, g greeting) {
	sockets.Tune(fc.c, r.c.partition)
	rank, late, wanted := int(g.rank), false, false
	r.step(func(a *assembly) {
		if late = a.isLate(); late {
			return
		}
		if wanted = a.enter(rank); wanted {
			r.conns[rank] = fc
			r.wg.Go(func() { r.listen(rank, fc) })
		}
	})
	switch {
	case late:
		r.serveLate(rank, fc)
	case !wanted:
		fc.close()
	}
}

// listen serves one rank's connection until the rank hangs up, or is attached to another parent.
func (r *root) listen(rank int, fc *frameConn) {
	defer fc.close()
	_ = fc.c.SetReadDeadline(time.Now().Add(r.c.timeout)) // until it has sent its addresses
	for {
		h, data, err := fc.read()
		if h.kind == frameJoin && err == nil {
			_ = fc.c.SetReadDeadline(time.Time{})
		}
		r.step(func(a *assembly) {
			if err == nil {
				err = a.receive(rank, h, data)
			}
			if err == errDetached {
				delete(r.conns, rank)
			} else if err != nil {
				a.lost(rank, err.Error())
			}
		})
		if err != nil {
			return
		}
	}
}

// serveLate sends the failure to a late rank and waits until the rank hangs up. Hanging up first could destroy unread
// data.
func (r *root) serveLate(rank int, fc *frameConn) {
	defer fc.close()
	_ = fc.within(r.c.timeout, frameFail, 0, 0, r.a.failure)
	_ = fc.c.SetReadDeadline(time.Now().Add(rootLinger))
	for err := error(nil); err == nil; {
		_, _, err = fc.read()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.a.untold(); before > 0 {
		r.a.told[rank] = true
		if r.a.untold() == 0 {
			close(r.told)
		}
	}
}

// room waits for a moment while too many ranks are getting a parent.
func (r *root) room() {
	for end := time.Now().Add(acceptPause); time.Now().Before(end); time.Sleep(time.Millisecond) {
		r.mu.Lock()
		arriving := r.a.arriving()
		r.mu.Unlock()
		if arriving < mostArriving {
			return
		}
	}
}

// fail ends the job before it has started.
func (r *root) fail(rank int, v verdict, text string) {
	r.step(func(a *assembly) { a.fail(rank, v, text) })
}

// giveUp ends the root in the process of a rank 0 that has failed to join with err. Usually the root has received the
// reason from that rank's own connection, and its error is better.
func (r *root) giveUp(err error) {
	select {
	case <-r.ended:
	case <-time.After(100 * time.Millisecond):
		r.fail(0, verdictGaveUp, "rank 0 gave up: "+err.Error())
	}
	<-r.done
}

// joined returns true if a rank has joined.
func (r *root) joined() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.a.members) > 0
}

// expected returns true if a rank of the root's own process is about to join.
func (r *root) expected() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.a.pinned
}
