package bootstrap

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/fdshare"
)

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
				l.m.web.takeNotice(l, notice{kind: frameGoodbye, from: uint32(l.peer)})
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
