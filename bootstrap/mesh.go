package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/fdshare"
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

// meshLink is one connection of the mesh.
type meshLink struct {
	m     *mesh
	peer  int
	fc    *frameConn
	seen  atomic.Int64 // time of the latest data from the peer, in nanoseconds of the process's monotonic clock
	held  atomic.Bool  // the reader waits for room, so silence is not evaluated
	cause atomic.Pointer[error]
	gone  chan struct{} // closed when the reader has ended
	// Of a web: the end of the link is not the end of the peer; a first frame has come.
	resting, begun atomic.Bool
	inward         bool         // the peer has dialed, and its data comes here
	stays          atomic.Bool  // pinned by the rank that has dialed
	used           atomic.Int64 // time of the latest data
	// Guarded by the web's mu.
	asked, telling bool
	news           []notice

	// Used by the beat goroutine only; liveness is nil for a peer on another host or in this process.
	liveness []byte
	died     bool
}

// livenessInterval is the polling interval of liveness pages. A dead peer's socket gets one more interval to deliver
// its remaining data.
const livenessInterval = 50 * time.Millisecond

var clockStart = time.Now()

func now() int64 { return int64(time.Since(clockStart)) }

func (l *meshLink) send(ctx context.Context, kind frameKind, space, tag uint64, data []byte) error {
	err := l.fc.write(ctx, kind, space, tag, data)
	if err != nil && ctx.Err() == nil {
		l.broken(err)
		select {
		case <-l.gone: // the reader's result takes precedence
		case <-ctx.Done():
		case <-time.After(2 * lastWords):
		}
	}
	return err
}

// lastWords is how long the reader may still receive data that the peer sent before a write to it failed, for example a
// goodbye.
const lastWords = 100 * time.Millisecond

// broken ends a connection that can no longer be written to.
func (l *meshLink) broken(cause error) {
	if l.cause.CompareAndSwap(nil, &cause) {
		_ = l.fc.c.SetReadDeadline(time.Now().Add(lastWords))
	}
}

// kill ends the connection; the reader then reports the first cause.
func (l *meshLink) kill(cause error) {
	l.cause.CompareAndSwap(nil, &cause)
	l.fc.close()
}

// seenConn updates the time of the peer's latest data on every read, also in the middle of a large frame.
type seenConn struct {
	net.Conn
	l *meshLink
}

func (c seenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.l.seen.Store(now())
	}
	return n, err
}

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

func (l *meshLink) watch(ctx context.Context, t *table) {
	p := &t.members[l.peer]
	if !isHere(l.fc) || p.process == t.members[l.m.e.rank].process || p.liveness == (fdshare.Ticket{}) {
		return
	}
	page, err := watchLiveness(ctx, p.liveness)
	if err != nil {
		l.m.c.log.Debug("bootstrap: no liveness page", "rank", l.m.e.rank, "peer", l.peer, "error", err)
		return
	}
	l.liveness = page
}

// unwatch unmaps the liveness page. The caller holds the mesh's lock, or is the last user.
func (l *meshLink) unwatch() {
	if l.liveness != nil {
		_ = unix.Munmap(l.liveness)
		l.liveness = nil
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

func (l *meshLink) read() {
	defer close(l.gone)
	defer l.fc.close()
	for {
		h, data, err := l.fc.read()
		if err != nil {
			if l.resting.Load() || l.inward && !l.begun.Load() {
				return
			}
			if cause := l.cause.Load(); cause != nil {
				err = *cause
			}
			l.m.e.lost(l.peer, fmt.Errorf("connection lost: %w", err))
			return
		}
		l.begun.Store(true)
		switch h.kind {
		case frameHeartbeat:
		case frameGoodbye:
			if l.m.web != nil {
				l.m.web.hear(l, notice{kind: frameGoodbye, from: uint32(l.peer)})
			} else {
				l.m.e.departed(l.peer)
			}
			return
		case frameAccuse:
			if h.tag >= uint64(l.m.e.size) {
				l.m.e.lost(l.peer, fmt.Errorf("%w: accusation of rank %d", ErrProtocol, h.tag))
				return
			}
			l.m.e.accusedBy(l.peer, int(h.tag))
		case frameData, frameCollective, frameLeave:
			if l.inward {
				l.used.Store(now())
			}
			if room := l.m.e.deliver(l.peer, h.kind, h.space, h.tag, data); room != nil {
				l.held.Store(true)
				select {
				case <-room:
				case <-l.m.stopping:
				}
				l.seen.Store(now())
				l.held.Store(false)
			}
		default:
			if err := l.m.handle(l, h, data); err != nil {
				l.m.e.lost(l.peer, err)
				return
			}
			if l.inward && l.resting.Load() {
				return
			}
		}
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
