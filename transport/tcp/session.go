package tcp

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/goccl/goccl/internal/sockets"
	"github.com/goccl/goccl/transport"
)

// session admits one dialler and applies its frames:
//
//  1. Do the handshake, bounded by its own timeout and by the lobby.
//  2. Decrypt and parse the header.
//  3. Receive and decrypt the payload in a buffer.
//  4. Find the region, check bounds and alignment, apply the frame.
//  5. Acknowledge a flush. All earlier frames are applied, because this goroutine applied them.
//  6. End at a bye, the Node's Close, or the loss of the peer.
//
// The region's lock is held for reading while a frame is applied, never during a wait.
func (n *Node) session(c net.Conn, guest *sockets.Guest) {
	opened, endpoint, from, err := admit(c, time.Now().Add(min(handshakeTimeout, n.opt.Timeout)), n.opt.Timeout,
		guest.Heard, n.secret)
	if !guest.Leave() && err == nil {
		err = errors.New("dropped for lack of room")
	}
	if err == io.EOF { // nothing was said: a peer asks whether this process is alive
		return
	}
	if err != nil {
		if times, report := n.refused.Count(reason(err)); report && !n.closed.Load() {
			n.opt.Log.Warn("goccl: ethernet: connection refused", "peer", c.RemoteAddr(), "err", err, "times", times)
		}
		return
	}
	if serve, ok := n.server(endpoint); !ok {
		return
	} else if serve != nil {
		sockets.Tune(c, 0) // a Peer watches its connections itself
		if err := serve(opened, from); err != nil && !n.closed.Load() {
			n.opt.Log.Warn("goccl: ethernet: a connection was refused", "peer", c.RemoteAddr(), "err", err)
		}
		return
	}
	sockets.Tune(c, partition)
	s := &receiver{node: n, stream: opened}
	err = s.run()
	if n.closed.Load() {
		_ = s.ack(n.bye())
		return
	}
	if err == nil {
		return
	}
	if status, refused := refusalOf(err); refused {
		_ = s.ack(header{op: opAck, status: status})
		linger(c)
		n.opt.Log.Warn("goccl: ethernet: a peer's frame was refused", "peer", c.RemoteAddr(), "err", err)
	}
	if n.opt.Lost != nil {
		n.opt.Lost(endpoint, from, fmt.Errorf("%w (%w)", transport.ErrPeerGone, err))
	}
}

// linger lets the last frame arrive: closing a connection with unread data resets it, and then the peer does not get
// the reason.
func linger(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.CloseWrite()
		_ = t.SetReadDeadline(time.Now().Add(time.Second))
		_, _ = io.Copy(io.Discard, t)
	}
}

// reason returns the kind of a refusal, for counting.
func reason(err error) string {
	if errors.Is(err, ErrAuth) {
		return "authentication"
	}
	return "silence"
}

type receiver struct {
	node   *Node
	stream *stream
}

// frameError is the error of a frame that is rejected with a status.
type frameError struct {
	status uint8
	err    error
}

func (e *frameError) Error() string { return e.err.Error() }
func (e *frameError) Unwrap() error { return e.err }

func refusalOf(err error) (uint8, bool) {
	var f *frameError
	if errors.As(err, &f) {
		return f.status, true
	}
	return 0, false
}

// run applies frames until a bye (nil) or an error.
func (s *receiver) run() error {
	for {
		if s.node.closed.Load() {
			return transport.ErrClosed
		}
		h, err := s.stream.read()
		if errors.Is(err, errFrame) {
			return &frameError{statusProtocol, err}
		} else if err != nil {
			return err
		}
		switch h.op {
		case opBye:
			s.node.left(h)
			return nil
		case opFlush:
			if err := s.ack(header{op: opAck, value: h.value}); err != nil {
				return err
			}
		case opAck, opJoin:
			return &frameError{statusProtocol, fmt.Errorf("%w: operation %d from a dialler", errFrame, h.op)}
		default:
			if err := s.apply(&h); err != nil {
				return err
			}
		}
	}
}

func (s *receiver) apply(h *header) error {
	var payload []byte
	if h.op == opWrite {
		var err error
		if payload, err = s.stream.payload(int(h.length)); err != nil {
			return err
		}
	}
	r := s.node.region(h.region)
	if r == nil {
		return &frameError{statusRegion, fmt.Errorf("no region %#x", h.region)}
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	m := r.mem
	if m == nil {
		return &frameError{statusRegion, fmt.Errorf("region %#x was closed", h.region)}
	}
	n := uint64(h.length)
	if h.op != opWrite {
		n = 8
	}
	if !inBounds(h.offset, n, m.Size()) || h.op != opWrite && h.offset%8 != 0 {
		return &frameError{statusBounds, fmt.Errorf("%w: %d bytes at offset %d of a region of %d", transport.ErrBounds, n,
			h.offset, m.Size())}
	}
	off := int64(h.offset)
	var err error
	switch h.op {
	case opWrite:
		err = m.Write(payload, off)
	case opAdd:
		err = m.Add(off, h.value)
	case opStore:
		err = m.Store(off, h.value)
	case opSignal:
		err = m.Signal(off)
	}
	if errors.Is(err, transport.ErrBounds) {
		return &frameError{statusBounds, err}
	} else if err != nil {
		return &frameError{statusMemory, err}
	}
	return nil
}

func (s *receiver) ack(h header) error {
	_ = s.stream.conn.SetWriteDeadline(time.Now().Add(s.node.opt.Timeout))
	return s.stream.write(h, nil)
}
