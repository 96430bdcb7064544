package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/goccl/goccl/internal/sockets"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport"
)

// A connection of a lane begins, after the handshake, with a packetJoin of the dialler and one of the listener, both
// sealed:
//
//	region  the lane's index
//	offset  the number of packets that this half has applied: the other resumes there
//	value   of the dialler: bit 0: the payload is encrypted; from bit 8: the number of lanes
//
// A listener whose Peer has failed answers with the refusal that it sent, or with a goodbye.

var errGone = errors.New("the other half has failed or was closed")

// dial connects a lane, once a connection before it has ended.
func (p *Peer) dial(ctx context.Context, l *lane) error {
	l.join()
	return p.port.listener.retry(ctx, func() error {
		s, err := p.port.listener.greet(ctx, p.remote.at, &p.remote.cred, p.cred.Endpoint)
		if err != nil {
			return err
		}
		conn := s.conn.(*net.TCPConn)
		sockets.Tune(conn, 0)
		h := packet{kind: packetJoin, region: uint64(l.index), offset: l.received.Load(),
			value: uint64(p.count.Load()) << 8}
		if p.encrypted() {
			h.value |= 1
		}
		deadline, ok := ctx.Deadline()
		if !ok {
			deadline = time.Now().Add(handshakeTimeout)
		}
		_ = conn.SetDeadline(deadline)
		err = s.sendPacket(h)
		if err == nil {
			h, err = s.receivePacket()
		}
		if err != nil {
			_ = conn.Close()
			return errRetry{err}
		}
		switch {
		case h.kind == packetBye:
			err = errGone
		case h.kind == packetRefuse:
			err = fmt.Errorf("refused: %w", refusal(h.status))
		case h.kind != packetJoin || h.region != uint64(l.index):
			err = fmt.Errorf("%w: packet of kind %d instead of a join", errFrame, h.kind)
		}
		if err != nil {
			_ = conn.Close()
			return errors.Join(err, p.Err())
		}
		w, err := l.newLine(s, p.encrypted())
		if err != nil {
			return err
		}
		if !p.attach(l, w, h.offset) {
			w.close()
			return p.Err()
		}
		if !p.goes(func() { l.serve(w) }) { // nobody reads it, so nobody else ends it
			w.close()
			close(w.ended)
		}
		return nil
	})
}

// serve is the listener's side of dial. It returns when the connection has ended, with an error if it was refused.
func (p *Peer) serve(s *stream, from uint64) error {
	conn := s.conn.(*net.TCPConn)
	_ = conn.SetDeadline(time.Now().Add(handshakeTimeout))
	h, err := s.receivePacket()
	if err != nil || h.kind != packetJoin || h.region >= uint64(len(p.all)) {
		return fmt.Errorf("%w: packet of kind %d, lane %d instead of a join (%w)", errFrame, h.kind, h.region,
			errors.Join(err))
	}
	p.mu.Lock()
	if p.from != 0 && p.from != from {
		p.mu.Unlock()
		return fmt.Errorf("%w: this half is connected with another", ErrAuth)
	}
	p.from = from
	if p.Err() != nil {
		h := packet{kind: packetBye}
		if p.refused != statusOK {
			h = packet{kind: packetRefuse, status: p.refused}
		}
		p.mu.Unlock()
		_ = s.sendPacket(h)
		return nil
	}
	p.keep(int(min(max(1, h.value>>8), maxSockets)))
	p.mu.Unlock()
	l := p.all[h.region]
	w, err := l.replace(s, &h)
	if w != nil {
		l.serve(w)
	}
	return err
}

// replace ends the lane's connection and gives it a new one. The connections that a dialler makes in quick succession
// replace each other one after the other: else an earlier one could take the place of a later one, which the dialler
// holds to be the lane's.
func (l *lane) replace(s *stream, h *packet) (*line, error) {
	l.replacing.Lock()
	defer l.replacing.Unlock()
	l.lose(l.current(), errors.New("the peer has made another connection"))
	l.join()
	if err := s.sendPacket(packet{kind: packetJoin, region: h.region, offset: l.received.Load()}); err != nil {
		return nil, nil // the dialler tries again
	}
	w, err := l.newLine(s, h.value&1 != 0)
	if err != nil {
		return nil, err
	}
	if !l.peer.attach(l, w, h.offset) {
		w.close()
		return nil, nil
	}
	return w, nil
}

// newLine takes over the connection of s, also when it fails.
func (l *lane) newLine(s *stream, encrypted bool) (*line, error) {
	c := s.conn.(*net.TCPConn)
	w := &line{conn: c, closed: make(chan struct{}), ended: make(chan struct{})}
	if encrypted {
		w.in, w.out, w.nIn, w.nOut = s.in, s.out, s.nIn, s.nOut
	}
	err := c.SetDeadline(time.Time{})
	if err == nil && l.index == 0 {
		w.sock, err = detach(c, l.peer.port.poller)
		w.conn = w.sock
	}
	if err == nil {
		w.raw, err = w.conn.SyscallConn()
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return w, nil
}

// goes runs f on a goroutine that Close waits for, unless Close has begun.
func (p *Peer) goes(f func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closing {
		p.wg.Go(f)
	}
	return !p.closing
}

// attach gives a lane a connection. The other half has applied n of its packets; sending goes on there.
func (p *Peer) attach(l *lane, w *line, n uint64) bool {
	l.acked(n)
	l.mu.Lock()
	first := l.last == nil
	switch {
	case l.dead != nil:
		l.mu.Unlock()
		return false
	case n != l.base:
		l.mu.Unlock()
		p.fail(fmt.Errorf("%w: %w: %d packets applied of lane %d, where %d to %d can be", transport.ErrPeerGone, errFrame,
			n, l.index, l.base, l.next))
		return false
	}
	l.out.reset()
	l.line, l.last, l.next, l.acknowledged, l.blocked = w, w, n, l.received.Load(), false
	l.urging = len(l.queue) > 0 // a flush may have asked on the connection before
	l.lastData.Store(int64(wait.Now()))
	l.mu.Unlock()
	if first {
		p.goes(l.write)
		p.mu.Lock()
		if p.missing--; p.missing == 0 {
			close(p.ready)
		}
		p.mu.Unlock()
	}
	l.wake()
	return true
}

// maxFruitless is how many connections of a lane may end one after the other before a packet is exchanged, if that
// takes longer than Recovery.
const maxFruitless = 5

func (l *lane) current() *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.line
}

// lose ends a connection that failed. If it was the lane's, the lane waits for another.
func (l *lane) lose(w *line, err error) {
	if w == nil {
		return
	}
	w.close()
	l.mu.Lock()
	if l.line != w {
		l.mu.Unlock()
		return
	}
	l.line = nil
	if at := l.base + l.received.Load(); at != l.reached || l.since.IsZero() {
		l.reached, l.fruitless, l.since = at, 0, time.Now()
	}
	l.fruitless++
	often := l.fruitless > maxFruitless && time.Since(l.since) > l.peer.port.opt.Recovery
	l.mu.Unlock()
	switch {
	case errors.Is(err, errSource):
		l.peer.fail(err)
		return
	case often:
		l.peer.fail(fmt.Errorf("%w: connections are lost again and again before anything arrives (%w)",
			transport.ErrPeerGone, err))
		return
	}
	l.peer.goes(func() { l.peer.recover(l, err) })
}

// refusedFor is how long nothing may listen at a peer's address before its process counts as dead: its listener lives
// as long as the process.
const refusedFor = 200 * time.Millisecond

// recover makes the lane's next connection, or waits for it, until the deadline. The half that waits finds out whether
// the other process is alive by connecting to its listener.
func (p *Peer) recover(l *lane, cause error) {
	ctx, cancel := context.WithTimeout(p.ctx, p.port.opt.Recovery)
	defer cancel()
	p.mu.Lock()
	remote := p.remote
	p.mu.Unlock()
	var refused time.Time
	for {
		var err error
		switch {
		case remote == nil: // Connect was not called: the other half has Connect's deadline
		case p.dials():
			if err = p.dial(ctx, l); err == nil {
				return
			}
		default:
			err = probe(ctx, remote)
		}
		now := time.Now()
		switch {
		case errors.Is(err, transport.ErrBounds), errors.Is(err, errFrame):
			p.fail(fmt.Errorf("tcp: %v: %w", remote.at, err))
			return
		case errors.Is(err, ErrAuth), errors.Is(err, errGone):
			p.fail(fmt.Errorf("%w: %v has closed its end (%w)", transport.ErrPeerGone, remote.at, cause))
			return
		case !errors.Is(err, syscall.ECONNREFUSED):
			refused = time.Time{}
		case refused.IsZero():
			refused = now
		case now.Sub(refused) > refusedFor:
			p.fail(fmt.Errorf("%w: nothing listens at %v any more: its process is dead (%w)", transport.ErrPeerGone,
				remote.at, cause))
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			if l.current() == nil && p.Err() == nil {
				p.fail(fmt.Errorf("%w: a connection was lost and did not come back within %v (%w)", transport.ErrPeerGone,
					p.port.opt.Recovery, errors.Join(cause, err)))
			}
			return
		}
		if l.current() != nil {
			return
		}
	}
}

// probe connects to the listener of the other half and sends nothing.
func probe(ctx context.Context, remote *address) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", remote.at.String())
	if err == nil {
		err = c.Close()
	}
	return err
}
