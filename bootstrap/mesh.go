package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/fdshare"
)

// mesh is a rank's connections to all peers and the goroutines that serve them: one reader per peer and one heartbeat.
//
//  1. A reader passes frames to the endpoint. A hang-up without a goodbye is a death.
//  2. The heartbeat writes to every peer. It keeps unacknowledged data on the wire, so that the kernel
//     (TCP_USER_TIMEOUT) gives up a partitioned peer, and it shows peers that this process still runs.
//  3. A peer that has been silent for the stall timeout is given up.
//  4. A peer of this host whose liveness page shows its death is given up, even if its sockets are still open.
type mesh struct {
	e        *endpoint
	c        *config
	links    []*meshLink // nil at our own rank
	stopping chan struct{}
	wg       sync.WaitGroup
	live     bool // the mesh holds a reference to this process's liveness page
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

func newMesh(e *endpoint, c *config, conns []*frameConn) *mesh {
	m := &mesh{e: e, c: c, links: make([]*meshLink, len(conns)), stopping: make(chan struct{})}
	for peer, fc := range conns {
		if fc == nil {
			continue
		}
		l := &meshLink{m: m, peer: peer, fc: fc, gone: make(chan struct{})}
		fc.r.Reset(seenConn{fc.c, l})
		l.seen.Store(now())
		m.links[peer] = l
		e.links[peer] = l
	}
	e.stop, e.accuse = m.stop, m.accuse
	return m
}

// accusationTimeout bounds the delay that accusations add to the handling of a death.
const accusationTimeout = 50 * time.Millisecond

// accuse tells every other peer that this rank is about to give up peer. Peers that cannot be told in time are skipped.
func (m *mesh) accuse(peer int) {
	ctx, cancel := context.WithTimeout(context.Background(), accusationTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for p, l := range m.links {
		if l != nil && p != peer && m.e.wasHere(p) {
			wg.Go(func() { _ = l.fc.write(ctx, frameAccuse, 0, uint64(peer), nil) })
		}
	}
	wg.Wait()
}

func (m *mesh) start() {
	for _, l := range m.links {
		if l != nil {
			m.wg.Go(l.read)
		}
	}
	m.wg.Go(m.beat)
}

// watch maps the liveness pages of peers in other processes of this host. Without a liveness page, a peer's death is
// detected by its sockets alone.
func (m *mesh) watch(ctx context.Context, t *table) {
	self := &t.members[m.e.rank]
	for peer, l := range m.links {
		p := &t.members[peer]
		if l == nil || !isHere(l.fc) || p.process == self.process || p.liveness == (fdshare.Ticket{}) {
			continue
		}
		page, err := watchLiveness(ctx, p.liveness)
		if err != nil {
			m.c.log.Debug("bootstrap: no liveness page", "rank", m.e.rank, "peer", peer, "error", err)
			continue
		}
		l.liveness = page
	}
}

// lookAround gives up peers whose liveness page shows their death.
func (m *mesh) lookAround() {
	for _, l := range m.links {
		switch {
		case l == nil || l.liveness == nil || !livenessEnded(l.liveness):
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
	for _, l := range m.links {
		if l != nil && l.liveness != nil {
			_ = unix.Munmap(l.liveness)
			l.liveness = nil
		}
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
			if cause := l.cause.Load(); cause != nil {
				err = *cause
			}
			l.m.e.lost(l.peer, fmt.Errorf("connection lost: %w", err))
			return
		}
		switch h.kind {
		case frameHeartbeat:
		case frameGoodbye:
			l.m.e.departed(l.peer)
			return
		case frameAccuse:
			if h.tag >= uint64(len(l.m.links)) {
				l.m.e.lost(l.peer, fmt.Errorf("%w: accusation of rank %d", ErrProtocol, h.tag))
				return
			}
			l.m.e.accusedBy(l.peer, int(h.tag))
		case frameData, frameCollective, frameLeave:
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
			l.m.e.lost(l.peer, fmt.Errorf("%w: frame kind %d from a peer", ErrProtocol, h.kind))
			return
		}
	}
}

func (m *mesh) beat() {
	// Large jobs use a longer interval: a thousand peers need a thousand frames per beat.
	interval := max(m.c.heartbeat, time.Duration(len(m.links))*time.Millisecond)
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
		for _, l := range m.links {
			if l == nil {
				continue
			}
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
	close(m.stopping)
	ctx, cancel := context.WithTimeout(context.Background(), goodbyeLinger)
	defer cancel()
	var wg sync.WaitGroup
	for _, l := range m.links {
		if l == nil {
			continue
		}
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

// dropConns closes connections without a goodbye, for a mesh that never came up.
func dropConns(conns []*frameConn) {
	for _, fc := range conns {
		if fc != nil {
			fc.close()
		}
	}
}
