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

// link is one connection of the overlay. The connection with a neighbour of the job carries the data of both ranks.
// Any other carries the data of the rank that has dialed; reports, heartbeats and goodbyes go both ways.
type link struct {
	o    *overlay
	peer int
	fc   *frameConn
	// neighbour: the peer is a neighbour in the job, so the connection lasts as long as the job.
	neighbour bool
	// inbound: the peer's data comes over this connection. It is true for every neighbour.
	inbound bool
	// gone is closed when the reader has ended and the link is removed. The reader of a neighbour starts with the job.
	gone chan struct{}
	// again has a connection that the peer has dialed in place of this one.
	again chan *frameConn
	// taken is the bytes read since the last acknowledgement because of their number; the reader's.
	taken int

	seen  atomic.Int64          // The time of the latest byte from the peer.
	used  atomic.Int64          // The time of the latest data in either direction.
	held  atomic.Bool           // The reader does not read for now, so the peer's silence means nothing.
	idle  atomic.Bool           // The sender has given the connection up for others: its end is not the peer's.
	cause atomic.Pointer[error] // The first reason why this rank ends the connection; the reader reports it.

	// Guarded by the endpoint's mu:

	pinned    bool     // The connection stays open; the dialing rank decides that. It is true for every neighbour.
	asked     bool     // The dialing rank was asked to give the connection up.
	reporting bool     // A goroutine writes the reports; if false, reports is empty.
	reports   []report // The reports to send, oldest first.
	liveness  []byte   // The peer's liveness page; nil for a peer on another host or in this process.
	died      bool     // The liveness page has shown the peer's death once.
}

func (o *overlay) newLink(peer int, fc *frameConn) *link {
	l := &link{o: o, peer: peer, fc: fc, gone: make(chan struct{}), again: make(chan *frameConn, 1)}
	fc.r.Reset(seenConn{fc.c, l})
	l.seen.Store(now())
	if a, ok := fc.c.LocalAddr().(*net.TCPAddr); ok {
		at := a.AddrPort().Addr().Unmap()
		o.e.outward.CompareAndSwap(nil, &at)
	}
	return l
}

// add registers an established link. The caller holds mu.
func (o *overlay) add(l *link) {
	o.links[l] = struct{}{}
	o.e.m.peers[l.peer].links++
	if l.pinned {
		o.e.m.peers[l.peer].pinned++
	}
}

// serve runs the link's reader to its end, and then removes the link.
func (l *link) serve() {
	l.read()
	l.o.e.step(func(m *membership, now int64) {
		delete(l.o.links, l)
		m.peers[l.peer].links--
		if l.pinned {
			m.peers[l.peer].pinned--
		}
		if l.neighbour {
			m.inboundChanged(now, l.peer, -1)
		}
		l.unwatch()
	})
	close(l.gone)
}

func (l *link) send(ctx context.Context, kind frameKind, space, tag uint64, data []byte) error {
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
func (l *link) broken(cause error) {
	if l.cause.CompareAndSwap(nil, &cause) {
		_ = l.fc.c.SetReadDeadline(time.Now().Add(lastWords))
	}
}

// kill ends the connection; the reader then reports the first cause.
func (l *link) kill(cause error) {
	l.cause.CompareAndSwap(nil, &cause)
	l.fc.close()
}

// seenConn updates the time of the peer's latest data on every read, also in the middle of a large frame.
type seenConn struct {
	net.Conn
	l *link
}

func (c seenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.l.seen.Store(now())
	}
	return n, err
}

// watch maps the liveness page of a peer in another process of this host. Without it the peer's death is detected by
// its connections alone.
func (l *link) watch(ctx context.Context) {
	t := l.o.t
	p := &t.members[l.peer]
	if !isHere(l.fc) || p.process == t.members[l.o.e.rank].process || p.liveness == (fdshare.Ticket{}) {
		return
	}
	page, err := watchLiveness(ctx, p.liveness)
	if err != nil {
		l.o.c.log.Debug("bootstrap: no liveness page", "rank", l.o.e.rank, "peer", l.peer, "error", err)
		return
	}
	l.liveness = page
}

// unwatch unmaps the liveness page. The caller holds mu, or is the last user.
func (l *link) unwatch() {
	if l.liveness != nil {
		_ = unix.Munmap(l.liveness)
		l.liveness = nil
	}
}

// read passes what comes to the endpoint until the connection ends. An end without a goodbye is a loss of the peer.
func (l *link) read() {
	defer l.end()
	begun := l.neighbour || !l.inbound // else the dialing rank may have failed before its first frame
	for {
		h, data, err := l.fc.read()
		if err != nil && (l.idle.Load() || !begun) {
			return
		}
		if err != nil {
			if cause := l.cause.Load(); cause != nil {
				err = *cause
			} else if err = l.resume(err); err == nil {
				continue
			}
			l.o.e.lost(l.peer, fmt.Errorf("connection lost: %w", err))
			return
		}
		begun = true
		l.acknowledge(len(data))
		if h.kind == frameGoodbye {
			l.receive([]report{{kind: reportGoodbye, from: uint32(l.peer)}})
			return
		}
		if err := l.handle(h, data); err != nil {
			l.o.e.lost(l.peer, err)
			return
		}
		if l.inbound && l.idle.Load() {
			return
		}
	}
}

func (l *link) handle(h header, data []byte) error {
	switch {
	case h.kind == frameHeartbeat:
		if l.fc.move != nil {
			l.fc.sent.from(h.tag)
		}
	case h.kind == frameData || h.kind == frameCollective:
		l.used.Store(now())
		room := l.o.e.box.put(key{l.peer, h.kind, h.space, h.tag}, data)
		if room == nil {
			return nil
		}
		l.held.Store(true)
		select {
		case <-room:
		case <-l.o.stopping:
		}
		l.seen.Store(now())
		l.held.Store(false)
	case h.kind == frameReports:
		list, err := decodeReports(data, l.o.e.size)
		if err != nil {
			return err
		}
		l.receive(list)
	case h.kind == frameIdle && !l.neighbour && l.inbound:
		l.idle.Store(true)
	case h.kind == frameIdle && !l.neighbour:
		l.o.releaseWanted(l)
	case h.kind == framePinned && !l.neighbour && l.inbound:
		l.o.e.step(func(m *membership, _ int64) {
			if !l.pinned {
				l.pinned = true
				m.peers[l.peer].pinned++
			}
		})
	default:
		return fmt.Errorf("%w: frame kind %d from a peer", ErrProtocol, h.kind)
	}
	return nil
}

func (l *link) receive(list []report) {
	l.o.e.step(func(m *membership, now int64) {
		for _, r := range list {
			m.receive(now, l.peer, l.inbound, r)
		}
	})
}
