package tcp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/goccl/goccl/transport"
)

// session admits one dialler and applies its frames:
//
//  1. handshake, bounded by the timeout
//  2. header: parsed, its region found, bounds and alignment checked
//  3. payload: received in place where the processor can write the memory, else through a buffer
//  4. a flush is acknowledged when everything before it is applied, because this goroutine applied it
//  5. the end: a bye, the Node's Close, or a lost peer
//
// The region's lock is held for reading while a frame is applied and its payload arrives, which the payload's deadline bounds.
func (n *Node) session(c net.Conn) {
	endpoint, from, err := admit(c, time.Now().Add(n.opt.Timeout), n.secret)
	<-n.pending
	if err != nil {
		if !n.closed.Load() {
			n.opt.Log.Warn("goccl: ethernet: connection refused", "peer", c.RemoteAddr(), "err", err)
		}
		return
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(keepAlive)
	}
	s := &receiver{node: n, conn: c, r: newReader(c)}
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
		n.opt.Log.Warn("goccl: ethernet: a peer's frame was refused", "peer", c.RemoteAddr(), "err", err)
	}
	if n.opt.Lost != nil {
		n.opt.Lost(endpoint, from, fmt.Errorf("%w (%w)", transport.ErrPeerGone, err))
	}
}

func newReader(c net.Conn) *bufio.Reader { return bufio.NewReaderSize(c, 64<<10) }

type receiver struct {
	node *Node
	conn net.Conn
	r    *bufio.Reader
	buf  []byte // for memory without a View
}

// frameError is a frame that is refused with a status.
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
	var b [headerSize]byte
	for {
		if s.node.closed.Load() {
			return transport.ErrClosed
		}
		if _, err := io.ReadFull(s.r, b[:]); err != nil {
			return err
		}
		h, err := parseHeader(&b)
		if err != nil {
			return &frameError{statusProtocol, err}
		}
		switch h.op {
		case opBye:
			s.node.left(h)
			return nil
		case opFlush:
			if err := s.ack(header{op: opAck, value: h.value}); err != nil {
				return err
			}
		case opAck:
			return &frameError{statusProtocol, fmt.Errorf("%w: an acknowledgement from a dialler", errFrame)}
		default:
			if err := s.apply(&h); err != nil {
				return err
			}
		}
	}
}

func (s *receiver) apply(h *header) error {
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
		return &frameError{statusBounds, fmt.Errorf("%w: %d bytes at offset %d of a region of %d", transport.ErrBounds, n, h.offset, m.Size())}
	}
	off := int64(h.offset)
	var err error
	switch h.op {
	case opWrite:
		return s.write(m, off, int64(n))
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

func (s *receiver) write(m Memory, off, n int64) error {
	if err := s.conn.SetReadDeadline(time.Now().Add(s.node.opt.Timeout)); err != nil {
		return err
	}
	defer func() { _ = s.conn.SetReadDeadline(time.Time{}) }()
	if v := m.View(off, n); v != nil {
		_, err := io.ReadFull(s.r, v)
		return err
	}
	if s.buf == nil {
		s.buf = make([]byte, maxPayload)
	}
	if _, err := io.ReadFull(s.r, s.buf[:n]); err != nil {
		return err
	}
	if err := m.Write(s.buf[:n], off); err != nil {
		return &frameError{statusMemory, err}
	}
	return nil
}

func (s *receiver) ack(h header) error {
	var b [headerSize]byte
	h.put(&b)
	_ = s.conn.SetWriteDeadline(time.Now().Add(s.node.opt.Timeout))
	_, err := s.conn.Write(b[:])
	return err
}
