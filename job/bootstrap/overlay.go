package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/internal/sockets"
)

// overlay is the connections of one rank of a job and the goroutines that serve them. Below sparseFrom ranks it is
// complete: every pair of ranks is connected. In a larger job that would take a descriptor for each rank, so there the
// overlay is sparse.
//
//  1. A rank stays connected with its neighbours (ring.go), over one connection for the data of both. The neighbours
//     watch each other and pass reports on (membership.go).
//  2. Any other connection of a sparse overlay is made by the first message to its peer (cached.go), and carries the
//     data of the rank that has dialed. Messages go straight to their receiver, so the death of a third rank loses
//     none.
//  3. The heartbeat writes to every peer. It keeps unacknowledged data on the network, so that the kernel
//     (TCP_USER_TIMEOUT) gives up a partitioned peer, and it shows peers that this process still runs.
//  4. A peer that has been silent for the stall timeout is lost, and so is a peer of this host whose liveness page
//     shows its death, even if its connections are still open.
type overlay struct {
	e  *endpoint
	c  *config
	d  *dialer
	ls *listeners
	t  *table // Set before the first dial.
	// gate accepts the connections of peers: until all neighbours are connected if the overlay is complete and
	// on one host, else as long as it exists.
	gate     *acceptor
	live     bool // The overlay holds a reference to this process's liveness page.
	ctx      context.Context
	cancel   context.CancelFunc // Ends all writes of tasks.
	tasks    sync.WaitGroup     // Dials and writes of reports.
	readers  sync.WaitGroup     // The readers of links and the heartbeat.
	stopping chan struct{}      // Closed when readers must not block any more.

	// Guarded by the endpoint's mu:

	// neighbours has an entry for each neighbour from the start, so it is read without the lock.
	neighbours map[int]*neighbour
	// links are the established connections.
	links map[*link]struct{}
	// out are the connections that this rank has dialed to other peers, by peer.
	out map[int]*outgoing
	// in are the connections that other peers have dialed, by peer, oldest first.
	in map[int][]*incoming
	// pins counts, by peer, the groups that keep a connection to it.
	pins map[int]int
	// closed: no connection is made any more. silent: no task is started any more. ended: no reader is, either.
	closed, silent, ended bool
}

// neighbour is a neighbour of this rank. Its link is nil until it is connected, and does not change once the job has
// started, so send reads it without the lock.
type neighbour struct {
	l        *link
	reserved bool // It has dialed and was admitted.
}

const (
	// sparseFrom is the number of ranks from which the overlay is sparse, and ranks join over a tree.
	sparseFrom = 128
	// sparseRelayFrom is the size from which groups of a sparse overlay gather over relays.
	sparseRelayFrom = 16
	// livenessInterval is the polling interval of liveness pages. A dead peer's socket gets one more interval to
	// deliver its remaining data.
	livenessInterval = 50 * time.Millisecond
)

func newOverlay(c *config, d *dialer, ls *listeners, rank, world int) *overlay {
	complete := world < c.sparseFrom
	e := newEndpoint(rank, world, c, complete)
	o := &overlay{e: e, c: c, d: d, ls: ls, stopping: make(chan struct{}), neighbours: map[int]*neighbour{},
		links: map[*link]struct{}{}, out: map[int]*outgoing{}, in: map[int][]*incoming{}, pins: map[int]int{}}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	for p := range neighbours(rank, world, complete) {
		o.neighbours[p] = &neighbour{}
	}
	e.t = o
	if !complete {
		e.relayFrom = sparseRelayFrom
	}
	return o
}

// connect opens the connections with the neighbours: it dials some and waits for the others.
func (o *overlay) connect(ctx context.Context) error {
	dialCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var dialing sync.WaitGroup
	places := make(chan struct{}, maxDials)
	for peer := range o.neighbours {
		if !dials(o.e.rank, peer, o.e.size) {
			continue
		}
		dialing.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			fc, err := o.dialPeer(dialCtx, peer, purposeData)
			if err == nil {
				o.addNeighbour(peer, fc)
			} else if dialCtx.Err() == nil {
				cancel(&blame{peer, err})
			}
		})
	}
	var absent []int
	err := o.e.until(dialCtx, func() bool {
		absent = absent[:0]
		for peer, n := range o.neighbours {
			if n.l == nil {
				absent = append(absent, peer)
			}
		}
		return len(absent) == 0
	})
	cancel(nil)
	dialing.Wait()
	if errors.Is(err, ErrTimeout) {
		slices.Sort(absent)
		err = o.gate.reason(fmt.Errorf("%w; no connection with ranks %s", err, rankList(absent)))
	}
	if err != nil {
		return err
	}
	for _, n := range o.neighbours {
		n.l.watch(ctx)
	}
	return nil
}

// addNeighbour takes the connection with a neighbour. It is not read before start: until then the joining detects
// every failure.
func (o *overlay) addNeighbour(peer int, fc *frameConn) {
	sockets.Tune(fc.c, o.c.partition)
	if !isHere(fc) {
		fc.last()
	}
	l := o.newLink(peer, fc)
	l.neighbour, l.inbound, l.pinned = true, true, true
	o.e.mu.Lock()
	defer o.e.mu.Unlock()
	n := o.neighbours[peer]
	if o.closed || n.l != nil {
		fc.close()
		return
	}
	n.l = l
	o.add(l)
	o.e.m.inboundChanged(now(), peer, 1)
	o.e.turn()
}

// start begins the life of the job: from now on an end of a connection is a loss of its peer.
func (o *overlay) start() {
	for _, n := range o.neighbours {
		n.l.seen.Store(now())
		o.readers.Go(n.l.serve)
	}
	o.readers.Go(o.beat)
}

// send implements transport.
func (o *overlay) send(ctx context.Context, peer int, kind frameKind, space, tag uint64, data []byte) error {
	if n := o.neighbours[peer]; n != nil {
		return n.l.send(ctx, kind, space, tag, data)
	}
	c, err := o.take(ctx, peer)
	if err != nil {
		if !errors.Is(err, ErrPeerDead) && !errors.Is(err, errPeerClosed) {
			err = errUnsent{err}
		}
		return err
	}
	defer o.release(c)
	c.l.used.Store(now())
	return c.l.send(ctx, kind, space, tag, data)
}

// report implements transport. A peer that does not read holds up no other.
func (o *overlay) report(r report, except int) {
	for l := range o.links {
		if l.peer == except || l.idle.Load() || !o.e.m.wants(l.peer, r) {
			continue
		}
		l.reports = append(l.reports, r)
		if !l.reporting && !o.silent {
			l.reporting = true
			o.tasks.Go(func() { o.writeReports(l) })
		}
	}
}

// writeReports writes the reports of a link.
func (o *overlay) writeReports(l *link) {
	for {
		o.e.mu.Lock()
		list := l.reports[:min(len(l.reports), maxReports)]
		l.reports = l.reports[len(list):]
		if len(list) == 0 {
			l.reporting, l.reports = false, nil
			o.e.turn()
			o.e.mu.Unlock()
			return
		}
		o.e.mu.Unlock()
		if l.fc.write(o.ctx, frameReports, 0, 0, appendReports(nil, list)) != nil {
			o.e.mu.Lock()
			l.reports = nil // the reader of l, or the end of the overlay, shows why
			o.e.mu.Unlock()
		}
	}
}

// flush implements transport.
func (o *overlay) flush(ctx context.Context) {
	_ = o.e.until(ctx, func() bool {
		for l := range o.links {
			if l.reporting {
				return false
			}
		}
		return true
	})
}

// cut implements transport.
func (o *overlay) cut(peer int, cause error) {
	for l := range o.links {
		if l.peer == peer {
			l.broken(cause)
		}
	}
}

// all lists the links.
func (o *overlay) all() []*link {
	o.e.mu.Lock()
	defer o.e.mu.Unlock()
	return slices.Collect(maps.Keys(o.links))
}

var errDied = errors.New("the process died")

// pollLiveness ends the connections with peers whose liveness page shows their death.
func (o *overlay) pollLiveness() {
	o.e.mu.Lock()
	defer o.e.mu.Unlock()
	for l := range o.links {
		switch {
		case l.liveness == nil || !livenessEnded(l.liveness):
		case !l.died:
			l.died = true
		default:
			l.kill(errDied)
		}
	}
}

func (o *overlay) beat() {
	// Large jobs use a longer interval: a thousand peers need a thousand frames per beat.
	interval := max(o.c.heartbeat, time.Duration(len(o.all()))*time.Millisecond)
	tick := time.Tick(interval)
	poll := time.Tick(livenessInterval)
	last := now()
	for {
		select {
		case <-o.stopping:
			return
		case <-poll:
			o.pollLiveness()
			continue
		case <-tick:
		}
		t := now()
		paused := t - last - int64(interval)
		last = t
		for _, l := range o.all() {
			// If this process itself was stopped, it received nothing in that time, and no peer is to blame.
			if paused > int64(interval) {
				l.seen.Add(paused)
			}
			l.beat(t)
		}
	}
}

// beat checks that the peer is not silent and sends a heartbeat.
func (l *link) beat(t int64) {
	if silent := time.Duration(t - l.seen.Load()); silent > l.o.c.stall && !l.held.Load() {
		l.kill(fmt.Errorf("%w: nothing heard for %v: the process is stopped, or its host is unreachable", ErrTimeout,
			silent.Round(time.Millisecond)))
		return
	}
	select {
	case <-l.gone:
		return
	default:
	}
	if l.idle.Load() {
		return
	}
	if err := l.fc.beat(); err != nil && !errors.Is(err, net.ErrClosed) {
		l.broken(err)
	}
}

// goodbyeLinger bounds how long Close waits for a peer to receive earlier data.
const goodbyeLinger = time.Second

// stop implements transport. It waits until each peer has hung up, which a peer does when it reads the goodbye. Closing
// earlier could destroy data in flight: TCP resets a connection that is closed with unread data.
func (o *overlay) stop() {
	o.close(leaveTimeout)
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeLinger)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range o.all() {
		wg.Go(func() {
			if l.fc.write(ctx, frameGoodbye, 0, 0, nil) == nil {
				l.fc.closeWrite()
				select {
				case <-l.gone:
				case <-ctx.Done():
				}
			}
			l.fc.close()
		})
	}
	wg.Wait()
	o.free()
}

// abandon ends an overlay that never came up, without a goodbye.
func (o *overlay) abandon() {
	o.close(0)
	for _, l := range o.all() {
		l.fc.close()
	}
	o.free()
}

// close ends everything except the links, after the reports that are queued are sent or the time is over.
func (o *overlay) close(within time.Duration) {
	o.e.mu.Lock()
	o.closed = true
	for _, c := range o.out {
		c.cancel()
	}
	o.e.turn()
	o.e.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	o.flush(ctx)
	cancel()
	o.e.mu.Lock()
	o.silent = true
	o.e.mu.Unlock()
	o.cancel()
	o.tasks.Wait()
	o.gate.shut()
	o.gate.wait()
	o.e.mu.Lock()
	o.ended = true
	o.e.mu.Unlock()
	close(o.stopping)
}

// free waits for the readers and frees what the links hold besides connections.
func (o *overlay) free() {
	o.readers.Wait()
	for _, l := range o.all() {
		l.unwatch()
	}
	if o.live {
		process.liveness.release()
		o.live = false
	}
}
