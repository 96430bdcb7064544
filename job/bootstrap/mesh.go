package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// mesh is a rank's connections and the goroutines that serve them: one reader per connection and one heartbeat. A full
// mesh has one connection to every peer, from the start. A web (web.go) opens and closes some.
//
//  1. A reader passes frames to the endpoint. A hang-up without a goodbye is a death.
//  2. The heartbeat writes to every peer. It keeps unacknowledged data on the wire, so that the kernel
//     (TCP_USER_TIMEOUT) gives up a partitioned peer, and it shows peers that this process still runs.
//  3. A peer that has been silent for the stall timeout is given up.
//  4. A peer of this host whose liveness page shows its death is given up, even if its sockets are still open.
type mesh struct {
	e        *endpoint
	c        *config
	web      *web // nil for a full mesh
	stopping chan struct{}
	wg       sync.WaitGroup
	live     bool // the mesh holds a reference to this process's liveness page

	mu    sync.Mutex
	links []*meshLink
	ended bool // no link is added any more
}

// livenessInterval is the polling interval of liveness pages. A dead peer's socket gets one more interval to deliver
// its remaining data.
const livenessInterval = 50 * time.Millisecond

var clockStart = time.Now()

func now() int64 { return int64(time.Since(clockStart)) }

// newMesh makes a mesh of connections, by rank; nil where there is none.
func newMesh(e *endpoint, c *config, conns []*frameConn) *mesh {
	m := &mesh{e: e, c: c, stopping: make(chan struct{})}
	for peer, fc := range conns {
		if fc != nil {
			l := m.newLink(peer, fc)
			m.add(l)
			e.links[peer] = l
		}
	}
	e.stop, e.accuse = m.stop, m.accuse
	return m
}

func (m *mesh) newLink(peer int, fc *frameConn) *meshLink {
	l := &meshLink{m: m, peer: peer, fc: fc, gone: make(chan struct{})}
	fc.r.Reset(seenConn{fc.c, l})
	l.seen.Store(now())
	if a, ok := fc.c.LocalAddr().(*net.TCPAddr); ok {
		at := a.AddrPort().Addr().Unmap()
		m.e.outward.CompareAndSwap(nil, &at)
	}
	return l
}

// add adds a link, before start.
func (m *mesh) add(l *meshLink) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.links = append(m.links, l)
}

// serve adds a link and runs its reader, unless the mesh has ended.
func (m *mesh) serve(l *meshLink, read func()) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.ended {
		m.links = append(m.links, l)
		m.wg.Go(read)
	}
	return !m.ended
}

// remove forgets a link whose reader has ended.
func (m *mesh) remove(l *meshLink) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.links = slices.DeleteFunc(m.links, func(o *meshLink) bool { return o == l })
	l.unwatch()
}

// all lists the links.
func (m *mesh) all() []*meshLink {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.links)
}

// accusationTimeout bounds the delay that accusations add to the handling of a death.
const accusationTimeout = 50 * time.Millisecond

// accuse tells every other peer that this rank is about to give up peer. Peers that cannot be told in time are skipped.
func (m *mesh) accuse(peer int) {
	ctx, cancel := context.WithTimeout(context.Background(), accusationTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range m.all() {
		if l.peer != peer && m.e.wasHere(l.peer) {
			wg.Go(func() { _ = l.fc.write(ctx, frameAccuse, 0, uint64(peer), nil) })
		}
	}
	wg.Wait()
}

func (m *mesh) start() {
	for _, l := range m.all() {
		m.wg.Go(l.read)
	}
	m.wg.Go(m.beat)
}

// watch maps the liveness pages of peers in other processes of this host. Without a liveness page, a peer's death is
// detected by its sockets alone.
func (m *mesh) watch(ctx context.Context, t *table) {
	for _, l := range m.all() {
		l.watch(ctx, t)
	}
}

// lookAround gives up peers whose liveness page shows their death.
func (m *mesh) lookAround() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.links {
		switch {
		case l.liveness == nil || !livenessEnded(l.liveness):
		case !l.died:
			l.died = true
		default:
			l.kill(errDied)
		}
	}
}

var errDied = errors.New("the process died")

// release frees what newMesh and watch hold besides connections and goroutines.
func (m *mesh) release() {
	for _, l := range m.all() {
		l.unwatch()
	}
	if m.live {
		releaseLiveness()
		m.live = false
	}
}

func (m *mesh) beat() {
	// Large jobs use a longer interval: a thousand peers need a thousand frames per beat.
	interval := max(m.c.heartbeat, time.Duration(len(m.all()))*time.Millisecond)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	look := time.NewTicker(livenessInterval)
	defer look.Stop()
	last := now()
	for {
		select {
		case <-m.stopping:
			return
		case <-look.C:
			m.lookAround()
			continue
		case <-tick.C:
		}
		t := now()
		paused := t - last - int64(interval)
		last = t
		for _, l := range m.all() {
			// If this process itself was stopped, it received nothing in that time, and no peer is to blame.
			if paused > int64(interval) {
				l.seen.Add(paused)
			}
			if silent := time.Duration(t - l.seen.Load()); silent > m.c.stall && !l.held.Load() {
				l.kill(fmt.Errorf("%w: nothing heard for %v: the process is stopped, or its host is unreachable", ErrTimeout,
					silent.Round(time.Millisecond)))
				continue
			}
			select {
			case <-l.gone:
				continue
			default:
			}
			if l.resting.Load() {
				continue
			}
			if err := l.fc.beat(); err != nil && !errors.Is(err, net.ErrClosed) {
				l.broken(err)
			}
		}
	}
}

// goodbyeLinger bounds how long Close waits for a peer to receive earlier data.
const goodbyeLinger = time.Second

// stop says goodbye to every peer and waits until the peer has hung up, which it does when it reads the goodbye.
// Closing earlier could destroy data in flight: TCP resets a connection that is closed with unread data.
func (m *mesh) stop() {
	m.end()
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeLinger)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range m.all() {
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
	m.wg.Wait()
	m.release()
}

// end lets no link be added any more.
func (m *mesh) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
	close(m.stopping)
}

// abandon ends all links without a goodbye.
func (m *mesh) abandon() {
	m.end()
	for _, l := range m.all() {
		l.fc.close()
	}
	m.wg.Wait()
	m.release()
}

// handle takes a frame that not every mesh has.
func (m *mesh) handle(l *meshLink, h header, data []byte) error {
	if m.web != nil {
		return m.web.handle(l, h, data)
	}
	return fmt.Errorf("%w: frame kind %d from a peer", ErrProtocol, h.kind)
}

// dropConns closes connections without a goodbye, for a mesh that never came up.
func dropConns(conns []*frameConn) {
	for _, fc := range conns {
		if fc != nil {
			fc.close()
		}
	}
}
