package tcp

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goccl/goccl/internal/aead"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport"
)

// frame is a packet of a put that is sent until it is acknowledged.
type frame struct {
	packet
	put    *put
	src    *netRegion
	srcOff int64
}

// line is one TCP connection of a lane.
type line struct {
	conn    conn
	sock    *socket // conn, of a lane 0
	raw     syscall.RawConn
	in, out *aead.Cipher // nil without encryption
	nIn     uint64
	nOut    uint64
	closed  chan struct{} // closed by close
	once    sync.Once
	ended   chan struct{} // closed when its reader has ended
}

func (w *line) close() {
	w.once.Do(func() {
		_ = w.conn.Close()
		close(w.closed)
	})
}

// lane is a sequence of connections, of which at most one is alive. Packets of puts are numbered from 0 in both
// directions, over all connections. Other packets have no number: they are not repeated.
type lane struct {
	peer  *Peer
	index int           // 0: small puts, acknowledgements and beats; the others share large puts
	kick  chan struct{} // wakes the writer

	received atomic.Uint64 // numbered packets of the peer that are applied; it only grows
	lastData atomic.Int64  // when bytes last arrived, by wait.Now

	replacing sync.Mutex // of the half that listens: see replace

	mu   sync.Mutex // guards the fields below
	line *line      // the live connection; nil between connections
	last *line      // the latest connection, alive or not; its reader is joined before the next one begins
	dead error      // why the Peer has ended; nothing is queued or sent once it is set

	// reached is the number of packets sent and received when a connection was lost, since is when that was noted, and
	// fruitless counts the connections that were lost since then with no packet more.
	reached   uint64
	fruitless int
	since     time.Time

	queue []frame // packets base … base+len(queue)-1: not acknowledged, kept for another connection
	base  uint64  // number of the oldest packet that the peer has not acknowledged
	next  uint64  // number of the next packet to send; base ≤ next ≤ base+len(queue)

	acknowledged uint64 // the value of received in the last acknowledgement sent; at most received

	// Packets without a number that are due: an acknowledgement, a beat, an urge, a goodbye, and a refusal's status.
	ackNow, beat, urging, leave bool
	refused                     uint8

	sent    time.Time // when the last batch was begun
	blocked bool      // the socket was full: only the writer sends
	held    int       // calls of hold without release: while it is positive, send only queues
	out     batch     // being sent; if the connection is lost, it is dropped and made again from queue
}

// wake makes the writer look for work.
func (l *lane) wake() { wait.Signal(l.kick) }

// send queues a packet of a put and sends it if the socket is ready.
func (l *lane) send(f frame) error {
	l.mu.Lock()
	if err := l.dead; err != nil {
		l.mu.Unlock()
		return err
	}
	l.queue = append(l.queue, f)
	if l.held > 0 {
		l.mu.Unlock()
		return nil
	}
	l.flushLocked()
	return nil
}

// hold makes send queue packets until release, which sends them.
func (l *lane) hold() {
	l.mu.Lock()
	l.held++
	l.mu.Unlock()
}

func (l *lane) release() {
	l.mu.Lock()
	l.held--
	l.flushLocked()
}

// flushLocked sends what the socket takes and releases mu.
func (l *lane) flushLocked() {
	wait := false
	if l.line != nil && !l.blocked {
		wait = l.pump() != nil || l.blocked
	}
	l.mu.Unlock()
	if wait {
		l.wake()
	}
}

// urge asks the peer for an acknowledgement if packets are not acknowledged.
func (l *lane) urge() {
	l.mu.Lock()
	l.urging = true
	l.flushLocked()
}

// acknowledge sends the number of applied packets, if the peer does not know it.
func (l *lane) acknowledge() {
	l.mu.Lock()
	if l.acknowledged == l.received.Load() {
		l.mu.Unlock()
		return
	}
	l.ackNow = true
	l.flushLocked()
}

// acked removes the packets before number n. The peer has applied them.
func (l *lane) acked(n uint64) bool {
	l.mu.Lock()
	if n < l.base || n > l.next || l.dead != nil {
		ok := n <= l.next
		l.mu.Unlock()
		return ok // an old number is harmless: acknowledgements of a resumed lane may repeat
	}
	k := int(n - l.base)
	done := make([]*put, 0, 8)
	for i := range l.queue[:k] {
		if q := l.queue[i].put; q.left.Add(-1) == 0 {
			done = append(done, q)
		}
	}
	clear(l.queue[:k])
	if l.queue = l.queue[k:]; len(l.queue) == 0 {
		l.queue = nil
	}
	l.base = n
	l.mu.Unlock()
	for _, q := range done {
		l.peer.end(q, nil)
	}
	return true
}

// bye asks for a goodbye and waits until it is sent, until end at most.
func (l *lane) bye(end time.Time) {
	l.mu.Lock()
	l.leave = true
	l.flushLocked()
	for time.Now().Before(end) {
		l.mu.Lock()
		done := l.line == nil || !l.leave && l.out.empty()
		l.mu.Unlock()
		if done {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// drain ends the lane: its connection, its puts and its writer.
func (l *lane) drain(err error, gently bool) {
	l.mu.Lock()
	if l.dead != nil {
		l.mu.Unlock()
		return
	}
	l.dead = err
	queue, w := l.queue, l.line
	l.queue, l.line = nil, nil
	l.mu.Unlock()
	l.wake()
	switch {
	case w == nil:
	case gently:
		// Closing a connection with unread data resets it, and then the goodbye may be lost. So its reader reads on.
		_ = w.conn.CloseWrite()
		_ = w.conn.SetReadDeadline(time.Now().Add(byeTime))
		time.AfterFunc(byeTime, w.close)
	default:
		w.close()
	}
	for i := range queue {
		l.peer.end(queue[i].put, err)
	}
}

// join waits for the reader of the last connection. The lane is dead.
func (l *lane) join() {
	l.mu.Lock()
	w := l.last
	l.mu.Unlock()
	if w != nil {
		<-w.ended
	}
}

// write is the lane's writer: it sends what callers could not send at once, and takes packets of large puts. It ends
// with the lane.
func (l *lane) write() {
	for {
		<-l.kick
		for {
			l.mu.Lock()
			if l.dead != nil {
				l.mu.Unlock()
				return
			}
			w, blocked := l.line, false
			var err error
			if w != nil {
				err = l.pump()
				blocked = l.blocked
			}
			l.mu.Unlock()
			if err == nil && blocked {
				err = w.writable()
			}
			if err != nil {
				l.lose(w, err)
			}
			if !blocked || err != nil {
				break
			}
		}
	}
}

// writable waits until the socket takes bytes.
func (w *line) writable() error {
	asked := false
	return w.raw.Write(func(uintptr) bool {
		again := asked
		asked = true
		return again
	})
}

// serve reads until the connection ends: lane 0 by the poller, the others on this goroutine. Then it decides what the
// end means.
func (l *lane) serve(w *line) {
	defer close(w.ended)
	r := newReader(l, w)
	var err error
	if l.index == 0 {
		err = l.peer.port.poller.read(r)
	} else {
		err = r.run()
	}
	var bad *packetError
	var said *refusedError
	switch {
	case l.peer.Err() != nil:
		_, _ = io.Copy(io.Discard, w.conn) // see drain
	case errors.Is(err, errBye):
		l.peer.fail(fmt.Errorf("%w: %v", transport.ErrPeerClosed, w.conn.RemoteAddr()))
	case errors.As(err, &said):
		l.peer.fail(fmt.Errorf("tcp: refused by %v: %w", w.conn.RemoteAddr(), said.error))
	case errors.As(err, &bad):
		l.peer.mu.Lock()
		l.peer.refused = bad.status
		l.peer.mu.Unlock()
		l.refuse(bad.status)
		l.peer.stop(fmt.Errorf("tcp: from %v: %w", w.conn.RemoteAddr(), err), true)
		_, _ = io.Copy(io.Discard, w.conn)
	default:
		l.lose(w, err)
	}
	w.close()
}

// refuse tells the peer why its packet was refused, if the socket takes it.
func (l *lane) refuse(status uint8) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.line != nil && l.out.empty() && !l.blocked {
		l.refused = status
		_ = l.pump()
	}
}
