package bootstrap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/goccl/goccl/internal/sockets"
)

// A connection with a neighbour on another host that breaks is made again, unless the peer has closed it: something
// between the hosts may reset connections.
//
//  1. Each side keeps the frames that it has sent until the other has read them (frameConn.keep, acknowledged).
//     Heartbeats carry the number of frames that were read, and more of them come when much was read.
//  2. After an error of the reader the rank that has dialed the connection dials again, for purposeResume. The other
//     one waits for that, and tries meanwhile whether the peer still listens: who does not is dead.
//  3. Over the new connection each side says how many frames it has read (frameResume). Then both send the kept frames
//     from there on, encrypted as before: the same bytes under the same counter and keys.
//
// An orderly end of a connection is a death: the kernel ends the connections of a killed process in this way, or resets
// those that it had not read to the end. So is a peer whose address refuses goneRefusals connections.

const (
	// maxKept bounds the bytes that are kept. Beyond it the connection does not survive its next error.
	maxKept = 64 << 20
	// ackEvery is how many bytes a reader takes before it acknowledges them.
	ackEvery = 1 << 20
	// firstProbe and probeEvery are the times before a peer that has to dial is looked at: each twice the one before.
	firstProbe = 10 * time.Millisecond
	probeEvery = 200 * time.Millisecond
)

// sent are the frames that the peer may not have read.
type sent struct {
	mu     sync.Mutex
	first  uint64 // counter of frames[0]
	frames [][]byte
	bytes  int
	lossy  bool // a frame was not kept
}

func (s *sent) keep(frame []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += len(frame)
	if s.lossy = s.lossy || s.bytes > maxKept; s.lossy {
		s.frames = nil
		return
	}
	s.frames = append(s.frames, bytes.Clone(frame))
}

// from forgets the frames before a counter, and returns the others. ok is false if the counter is not among them.
func (s *sent) from(counter uint64) (list [][]byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lossy || counter < s.first || counter > s.first+uint64(len(s.frames)) {
		return nil, false
	}
	n := counter - s.first
	for _, f := range s.frames[:n] {
		s.bytes -= len(f)
	}
	clear(s.frames[:n])
	s.first, s.frames = counter, s.frames[n:]
	return slices.Clone(s.frames), true
}

// movable is a connection that another one can replace.
type movable struct {
	mu     sync.Mutex
	now    net.Conn
	closed bool
}

func (m *movable) conn() net.Conn {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *movable) Read(p []byte) (int, error)         { return m.conn().Read(p) }
func (m *movable) Write(p []byte) (int, error)        { return m.conn().Write(p) }
func (m *movable) LocalAddr() net.Addr                { return m.conn().LocalAddr() }
func (m *movable) RemoteAddr() net.Addr               { return m.conn().RemoteAddr() }
func (m *movable) SetDeadline(t time.Time) error      { return m.conn().SetDeadline(t) }
func (m *movable) SetReadDeadline(t time.Time) error  { return m.conn().SetReadDeadline(t) }
func (m *movable) SetWriteDeadline(t time.Time) error { return m.conn().SetWriteDeadline(t) }

func (m *movable) CloseWrite() error {
	if c, ok := m.conn().(*net.TCPConn); ok {
		return c.CloseWrite()
	}
	return nil
}

// Close ends the connection, and those that would replace it.
func (m *movable) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return m.now.Close()
}

// cut resets the present connection.
func (m *movable) cut() {
	m.mu.Lock()
	defer m.mu.Unlock()
	cut(m.now)
}

// cut resets a connection: for the peer an orderly end would be a death.
func cut(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = c.Close()
}

func (m *movable) over() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closed
}

func (m *movable) move(c net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now = c; m.closed {
		_ = c.Close()
	}
}

// last makes the connection one that can be resumed.
func (f *frameConn) last() {
	f.move = &movable{now: f.c}
	f.c = f.move
}

// moved continues over another connection, whose peer has read `read` frames of f.
func (f *frameConn) moved(fc *frameConn, read uint64) error {
	f.turn <- struct{}{} // the old connection is closed, so no write lasts
	list, ok := f.sent.from(read)
	if !ok {
		<-f.turn
		return fmt.Errorf("%w: the peer has read %d frames, and not all later ones were kept", ErrProtocol, read)
	}
	_ = fc.c.SetDeadline(time.Time{})
	f.move.move(fc.c)
	f.r, f.down, f.torn = fc.r, false, false
	go func() { // both sides read meanwhile
		defer func() { <-f.turn }()
		for _, frame := range list {
			if _, err := f.c.Write(frame); err != nil {
				f.down, f.torn = true, wasTorn(err)
				return
			}
		}
	}()
	return nil
}

// resumable reports whether the reader's error may be something between the hosts.
func (l *link) resumable(err error) bool {
	m := l.fc.move
	if m == nil || m.over() || l.o.ctx.Err() != nil || errors.Is(err, ErrProtocol) {
		return false
	}
	ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	return len(l.again) > 0 || wasReset(err) || errors.Is(err, os.ErrDeadlineExceeded) || ended && l.fc.reset()
}

// reset reports whether the connection, whose reader has found its end, was reset: then a write has got the error.
// After an orderly end of the peer the kernel gives no write this error, also if the peer then resets.
func (f *frameConn) reset() bool {
	f.move.cut() // no write lasts
	f.turn <- struct{}{}
	defer func() { <-f.turn }()
	return f.torn
}

// wasTorn reports whether the kernel gives an error only once, for a connection that was reset before its end.
func wasTorn(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.ECONNABORTED)
}

// wasReset reports whether an error is of a connection that was reset. Others have a limit that has passed.
func wasReset(err error) bool {
	return wasTorn(err) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// resume makes the connection again. It returns the error with which the connection ends if that fails.
func (l *link) resume(cause error) error {
	if !l.resumable(cause) {
		return cause
	}
	o := l.o
	o.c.log.Warn("bootstrap: a connection broke; it is made again", "rank", o.e.rank, "peer", l.peer, "error", cause)
	l.held.Store(true)
	defer func() {
		l.seen.Store(now())
		l.held.Store(false)
	}()
	l.fc.move.cut()
	l.taken = 0
	ctx, stop := context.WithTimeout(o.ctx, o.c.partition)
	defer stop()
	go func() { // a peer that is dead for other reasons, or this rank's end
		for ctx.Err() == nil && l.cause.Load() == nil {
			_ = pause(ctx, probeEvery/4)
		}
		stop()
	}()
	for {
		fc, err := l.reconnect(ctx)
		if err == nil {
			if err = l.swap(ctx, fc); err == nil {
				return nil
			}
			cut(fc.c)
		}
		if ended := l.cause.Load(); ended != nil {
			return *ended
		}
		if fc == nil || errors.Is(err, ErrProtocol) || ctx.Err() != nil {
			return fmt.Errorf("%w; it could not be made again: %w", cause, err)
		}
	}
}

// reconnect dials the peer, or waits for it to dial.
func (l *link) reconnect(ctx context.Context) (*frameConn, error) {
	o := l.o
	if dials(o.e.rank, l.peer, o.e.size) {
		return o.dialPeer(ctx, l.peer, purposeResume)
	}
	for wait := firstProbe; ; wait = min(2*wait, probeEvery) {
		select {
		case fc := <-l.again:
			return fc, nil
		case <-ctx.Done():
			return nil, contextError(ctx)
		case <-time.After(wait):
		}
		probing, stop := context.WithCancel(ctx)
		var failed error
		done := make(chan struct{})
		go func() {
			defer close(done)
			fc, err := o.dialPeer(probing, l.peer, purposeMeet)
			if err == nil {
				fc.close()
			}
			failed = err
		}()
		select {
		case fc := <-l.again:
			stop()
			<-done
			return fc, nil
		case <-done:
			stop()
			if failed != nil {
				return nil, failed
			}
		}
	}
}

// swap continues over a new connection.
func (l *link) swap(ctx context.Context, fc *frameConn) error {
	stop := context.AfterFunc(ctx, func() { cut(fc.c) })
	defer stop()
	sockets.Tune(fc.c, l.o.c.partition)
	fc.r.Reset(seenConn{fc.c, l})
	if err := fc.write(ctx, frameResume, 0, l.fc.nIn.Load(), nil); err != nil {
		return err
	}
	h, _, err := fc.read()
	switch {
	case err != nil:
		return err
	case h.kind != frameResume:
		return fmt.Errorf("%w: frame kind %d in place of a resumption", ErrProtocol, h.kind)
	case !stop():
		return contextError(ctx)
	}
	return l.fc.moved(fc, h.tag)
}

// acknowledge counts what the reader takes, and tells the peer when it is much.
func (l *link) acknowledge(n int) {
	if l.taken += n; l.fc.move != nil && l.taken > ackEvery {
		l.taken = 0
		_ = l.fc.beat()
	}
}

// mayResume is the verdict for a neighbour that dials for purposeResume.
func (o *overlay) mayResume(peer int) verdict {
	o.e.mu.Lock()
	defer o.e.mu.Unlock()
	n := o.neighbours[peer]
	switch {
	case n == nil || n.l == nil || n.l.fc.move == nil || dials(o.e.rank, peer, o.e.size):
		return verdictProtocol
	case o.closed || o.e.m.peers[peer].phase == memberGone:
		return verdictGaveUp
	}
	return verdictOK
}

// enterAgain takes the new connection of a neighbour, whose old one may seem to work here.
func (o *overlay) enterAgain(fc *frameConn, peer int) {
	l := o.neighbours[peer].l
	for taken := false; !taken; {
		select {
		case l.again <- fc:
			taken = true
		case old := <-l.again:
			cut(old.c)
		}
	}
	l.fc.move.cut()
	if l.fc.move.over() {
		l.end()
	}
}

// end closes the connection, and one that would replace it.
func (l *link) end() {
	l.fc.close()
	select {
	case fc := <-l.again:
		cut(fc.c)
	default:
	}
}

// far reports whether a neighbour is on another host.
func (o *overlay) far() bool {
	for _, n := range o.neighbours {
		if n.l.fc.move != nil {
			return true
		}
	}
	return false
}
