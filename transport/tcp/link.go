package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport"
)

// LinkOptions configures a Link.
type LinkOptions struct {
	// Source is the device whose memory Write reads.
	Source device.Device
	// Staging allocates a buffer for sources that the processor cannot read (pinned memory); nil uses the Go heap.
	Staging func(size int) (buf []byte, free func(), err error)
	// Broken is called once when the peer vanishes or rejects a frame. It must not call back into the Link.
	Broken func(error)
}

// Link sends operations to one endpoint of a peer's Node. It implements transport.Link.
//
// The caller writes operations to the socket, under mu. The link breaks if the peer does not read for the Node's
// timeout.
type Link struct {
	node *Node
	conn net.Conn
	s    *stream // readAcks uses the reading half, mu guards the writing half
	opt  LinkOptions

	hurry atomic.Bool // see Hurry

	mu    sync.Mutex // serialises the socket's sending side; guards the fields below
	stage []byte
	free  func()
	sent  uint64 // sequence number of the last flush

	state  sync.Mutex // guards the fields below; taken inside mu, never around it
	acked  uint64
	marks  []mark // in order of seq
	err    error
	closed bool
	wake   chan struct{} // closed and replaced whenever acked or err changes
}

// mark is a word to set when the flush seq is acknowledged.
type mark struct {
	seq   uint64
	word  device.Ptr
	value uint64
}

func newLink(n *Node, s *stream, opt LinkOptions) *Link {
	return &Link{node: n, conn: s.conn, s: s, opt: opt, wake: make(chan struct{})}
}

// send writes one frame. The caller holds mu.
func (l *Link) send(h header, payload []byte) error {
	if err := l.Err(); err != nil {
		return err
	}
	limit := l.node.opt.Timeout
	if l.hurry.Load() {
		limit = hurryTime
	}
	_ = l.conn.SetWriteDeadline(time.Now().Add(limit))
	if l.hurry.Load() && limit != hurryTime { // Hurry was called in between, and its deadline overwritten
		_ = l.conn.SetWriteDeadline(time.Now().Add(hurryTime))
	}
	if err := l.s.write(h, payload); err != nil {
		var ne net.Error
		if errors.As(err, &ne) && ne.Timeout() {
			err = fmt.Errorf("%w: %v did not read for %v (%w)", transport.ErrPeerGone, l.conn.RemoteAddr(), limit, err)
		} else {
			err = fmt.Errorf("%w: %v (%w)", transport.ErrPeerGone, l.conn.RemoteAddr(), err)
		}
		l.fail(err, true)
		return l.Err()
	}
	return nil
}

// hurryTime bounds the time of a frame after Hurry.
const hurryTime = time.Second

// Hurry limits the frame being sent, and each later one, to a second: the Context is closing, and a sender may be
// blocked by a peer that does not read.
func (l *Link) Hurry() {
	l.hurry.Store(true)
	_ = l.conn.SetWriteDeadline(time.Now().Add(hurryTime))
}

// place checks that the link can reach dst.
func place(dst transport.Remote) error {
	if dst.Region == 0 {
		return fmt.Errorf("tcp: %w: the peer did not register it for ethernet", transport.ErrNotReachable)
	}
	return nil
}

// Write sends n bytes in frames of at most maxPayload.
func (l *Link) Write(dst transport.Remote, src device.Ptr, n int64) error {
	if err := place(dst); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for n > 0 {
		c := min(n, maxPayload)
		p, err := l.read(src, c)
		if err != nil {
			return err
		}
		if err := l.send(header{op: opWrite, length: uint32(c), region: dst.Region, offset: dst.Offset}, p); err != nil {
			return err
		}
		src, dst, n = src.Add(c), dst.Add(uint64(c)), n-c
	}
	return nil
}

// read returns the source's bytes: the memory itself on the host device, a copy of a GPU's memory.
func (l *Link) read(src device.Ptr, n int64) ([]byte, error) {
	if l.opt.Source == nil || l.opt.Source.ID().Kind == device.Host {
		return device.Bytes(src, n), nil
	}
	if l.stage == nil {
		if l.opt.Staging == nil {
			l.stage = make([]byte, maxPayload)
		} else {
			b, free, err := l.opt.Staging(maxPayload)
			if err != nil {
				return nil, fmt.Errorf("tcp: staging buffer: %w", err)
			}
			l.stage, l.free = b, free
		}
	}
	return l.stage[:n], l.opt.Source.CopyOut(l.stage[:n], src)
}

func (l *Link) word(o op, dst transport.Remote, value uint64) error {
	if err := place(dst); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.send(header{op: o, region: dst.Region, offset: dst.Offset, value: value}, nil)
}

// Add and Store send one frame each, like Signal.
func (l *Link) Add(dst transport.Remote, delta uint64) error   { return l.word(opAdd, dst, delta) }
func (l *Link) Store(dst transport.Remote, value uint64) error { return l.word(opStore, dst, value) }

// Signal adds one at the peer; total is not needed, since the peer's Node applies the addition itself.
func (l *Link) Signal(dst transport.Remote, _ uint64, _ bool) error { return l.word(opSignal, dst, 1) }

// flush sends a flush and returns its number.
func (l *Link) flush(m *mark) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	seq := l.sent
	if m != nil {
		m.seq = seq
		l.state.Lock()
		l.marks = append(l.marks, *m)
		l.state.Unlock()
	}
	return seq, l.send(header{op: opFlush, value: seq}, nil)
}

// Mark requests an acknowledgement; readAcks then sets the word.
func (l *Link) Mark(word device.Ptr, value uint64) error {
	_, err := l.flush(&mark{word: word, value: value})
	return err
}

// Flush waits for the acknowledgement of all earlier operations.
func (l *Link) Flush(ctx context.Context) error {
	seq, err := l.flush(nil)
	if err != nil {
		return err
	}
	for {
		l.state.Lock()
		done, err, wake := l.acked >= seq, l.err, l.wake
		l.state.Unlock()
		switch {
		case done:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// readAcks processes acknowledgements until the connection ends.
func (l *Link) readAcks() {
	for {
		h, err := l.s.read()
		switch {
		case errors.Is(err, errFrame):
			l.fail(fmt.Errorf("tcp: from %v: %w", l.conn.RemoteAddr(), err), true)
			return
		case err != nil:
			l.fail(fmt.Errorf("%w: %v (%w)", transport.ErrPeerGone, l.conn.RemoteAddr(), err), true)
			return
		case h.op == opBye:
			l.node.left(h)
			l.fail(fmt.Errorf("%w: %v", transport.ErrPeerClosed, l.conn.RemoteAddr()), false)
			return
		case h.op != opAck:
			l.fail(fmt.Errorf("tcp: from %v: %w: operation %d in an acknowledgement", l.conn.RemoteAddr(), errFrame, h.op), true)
			return
		case h.status != statusOK:
			l.fail(fmt.Errorf("tcp: refused by %v: %w", l.conn.RemoteAddr(), refusal(h.status)), true)
			return
		}
		l.acknowledge(h.value)
	}
}

// acknowledge advances acked and sets the words that waited for it, in order.
func (l *Link) acknowledge(seq uint64) {
	l.state.Lock()
	defer l.state.Unlock()
	if seq <= l.acked {
		return
	}
	l.acked = seq
	i := 0
	for ; i < len(l.marks) && l.marks[i].seq <= seq; i++ {
		m := l.marks[i]
		wait.At(*(*unsafe.Pointer)(unsafe.Pointer(&m.word))).Store(m.value)
	}
	l.marks = append(l.marks[:0], l.marks[i:]...)
	close(l.wake)
	l.wake = make(chan struct{})
}

// fail breaks the link with the first error. report is true for a failure, false for an orderly end.
func (l *Link) fail(err error, report bool) {
	l.state.Lock()
	first := l.err == nil
	if first {
		if l.closed {
			err = transport.ErrClosed // Close has ended the connection itself
		}
		l.err = err
		close(l.wake)
		l.wake = make(chan struct{})
		report = report && !l.closed
	}
	l.state.Unlock()
	if first && report && l.opt.Broken != nil {
		l.opt.Broken(err)
	}
}

// Err returns the error that broke the link.
func (l *Link) Err() error {
	l.state.Lock()
	defer l.state.Unlock()
	return l.err
}

// Close sends a bye, so that the peer does not report a failure, and ends the connection.
func (l *Link) Close() error {
	l.state.Lock()
	if l.closed {
		l.state.Unlock()
		return nil
	}
	l.closed = true
	l.state.Unlock()

	// A sender that is blocked in the socket gives up at this deadline, so the lock below becomes free soon.
	_ = l.conn.SetWriteDeadline(time.Now().Add(time.Second))
	l.mu.Lock()
	if l.Err() == nil {
		_ = l.conn.SetWriteDeadline(time.Now().Add(time.Second))
		_ = l.s.write(l.node.bye(), nil)
	}
	if l.free != nil {
		l.free()
		l.stage, l.free = nil, nil
	}
	l.mu.Unlock()
	l.fail(transport.ErrClosed, false)
	l.node.dropLink(l)
	if err := l.conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) { // the reader closes it too
		return err
	}
	return nil
}

var _ transport.Link = (*Link)(nil)
