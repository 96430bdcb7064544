package bootstrap

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goccl/goccl/internal/aead"
	"github.com/goccl/goccl/internal/plain"
)

// A frame, little endian:
//
//	 0  kind u8, three zero bytes
//	 4  payload length u32
//	 8  space u64
//	16  tag u64
//	24  counter u64: 0, 1, 2, … per direction of a connection
//	32  payload, encrypted, and a tag over it and the header (see package aead)
//
// Each connection has its own keys, one per direction, so a frame cannot be reflected, replayed, reordered or moved to
// another connection. An eavesdropper sees the lengths and tags of messages.
const (
	headerSize = 32
	// maxPayload has room for a collective's op byte and for the table of the largest job.
	maxPayload = MaxMessage + 64
)

type frameKind uint8

const (
	// Of the overlay:
	frameData frameKind = iota + 1
	frameCollective
	frameHeartbeat // Its tag is the number of frames that its sender has read.
	frameGoodbye   // The sender has closed; no frame follows.
	frameReports   // Reports (report.go).
	frameIdle      // The sender gives the connection up for others, or asks the other side to.
	framePinned    // The sender keeps the connection.
	// Of the joining:
	frameJoin     // A rank's addresses.
	frameParent   // The place of a rank in the tree.
	frameAttached // The rank has its place.
	frameStatus   // The missing ranks.
	frameTable    // The addresses of all ranks.
	frameReady    // A rank is connected to its neighbours.
	frameGo       // All are; the hosts.
	frameFail     // The joining has failed.
	frameGiveUp   // A rank stops joining.
	frameLost     // A rank was lost while joining.
	// Of the overlay: the first frame of a connection in place of a broken one (resume.go). Its tag is as a heartbeat's.
	frameResume
	frameKinds
)

// header has the form that it has on the wire.
type header struct {
	kind       frameKind
	reserved   [3]byte
	length     uint32
	space, tag uint64
	counter    uint64
}

var _ = [1]struct{}{}[unsafe.Sizeof(header{})-headerSize]

// decodeHeader makes all checks that are possible before the payload is read.
func decodeHeader(b *[headerSize]byte, counter uint64) (header, error) {
	h := plain.Read[header](b[:])
	switch {
	case h.kind == 0 || h.kind >= frameKinds || h.reserved != [3]byte{}:
		return h, fmt.Errorf("%w: frame of unknown kind %d", ErrProtocol, b[0])
	case h.length > maxPayload:
		return h, fmt.Errorf("%w: frame of %d bytes, at most %d", ErrProtocol, h.length, maxPayload)
	case h.counter != counter:
		return h, fmt.Errorf("%w: frame %d where %d is due", ErrProtocol, h.counter, counter)
	}
	return h, nil
}

// readFrame reads and decrypts one frame.
func readFrame(r io.Reader, in *aead.Cipher, counter uint64) (header, []byte, error) {
	var raw [headerSize]byte
	if _, err := io.ReadFull(r, raw[:]); err != nil {
		return header{}, nil, err
	}
	h, err := decodeHeader(&raw, counter)
	if err != nil {
		return h, nil, err
	}
	data, err := readPayload(r, int(h.length)+aead.Overhead)
	if err != nil {
		return h, nil, noEOF(err)
	}
	if data, err = in.Open(counter, data, raw[:]); err != nil {
		return h, nil, fmt.Errorf("%w: %w", ErrProtocol, err)
	}
	return h, data, nil
}

// readPayload allocates memory only as data arrives, because the length is not authenticated yet.
func readPayload(r io.Reader, n int) ([]byte, error) {
	const step = 256 << 10
	data := make([]byte, min(n, step))
	for have := 0; ; {
		if _, err := io.ReadFull(r, data[have:]); err != nil {
			return nil, err
		}
		have = len(data)
		if have == n {
			return data, nil
		}
		grown := make([]byte, min(n, 4*have))
		copy(grown, data)
		data = grown
	}
}

func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendFrame appends one encrypted frame to buf.
func appendFrame(buf []byte, out *aead.Cipher, h header, data []byte) []byte {
	h.length = uint32(len(data))
	var head [headerSize]byte
	copy(head[:], plain.Bytes(&h))
	buf = append(buf, head[:]...)
	return out.Seal(buf, h.counter, data, head[:])
}

// frameConn is an authenticated connection. One goroutine reads; any number may write.
type frameConn struct {
	c    net.Conn
	r    *bufio.Reader
	in   *aead.Cipher
	nIn  atomic.Uint64 // Frames read; the reader changes it.
	move *movable      // If not nil, it is c, and the connection can be made again.
	sent sent
	turn chan struct{} // holds one token during a write; guards the fields below
	out  *aead.Cipher
	nOut uint64
	buf  []byte
	err  error // after a failed write no write follows
	down bool  // frames are only kept, until the connection is made again
	torn bool  // a write got the error of a reset
}

func newFrameConn(c net.Conn, in, out *aead.Cipher) *frameConn {
	return &frameConn{c: c, r: bufio.NewReaderSize(c, 4<<10), in: in, out: out, turn: make(chan struct{}, 1)}
}

func (f *frameConn) read() (header, []byte, error) {
	h, data, err := readFrame(f.r, f.in, f.nIn.Load())
	if err == nil {
		f.nIn.Add(1)
	}
	return h, data, err
}

// longAgo, set as a deadline, ends pending reads and writes.
var longAgo = time.Unix(1, 0)

// maxKeptBuffer is the largest write buffer kept between frames.
const maxKeptBuffer = 64 << 10

// write sends one frame. If ctx ends in the middle of the frame, the rest is sent in the background, because a partial
// frame would break the connection. An error of ctx means that the frame may or may not arrive; any other error means
// that the connection is broken.
func (f *frameConn) write(ctx context.Context, kind frameKind, space, tag uint64, data []byte) error {
	select {
	case f.turn <- struct{}{}:
	case <-ctx.Done():
		return contextError(ctx)
	}
	if err := cmp.Or(f.err, contextError(ctx)); err != nil {
		<-f.turn
		return err
	}
	deadline, _ := ctx.Deadline()
	_ = f.c.SetWriteDeadline(deadline)
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = f.c.SetWriteDeadline(longAgo)
		close(fired)
	})
	rest, err := f.start(kind, space, tag, data)
	if !stop() {
		<-fired
	}
	switch {
	case err == nil || rest == nil:
		<-f.turn
	default:
		go f.finish(rest)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		<-ctx.Done() // the write deadline is ctx's, so ctx ends now, too
		return contextError(ctx)
	}
	return err
}

// within is write that takes limit at most.
func (f *frameConn) within(limit time.Duration, kind frameKind, space, tag uint64, data []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return f.write(ctx, kind, space, tag, data)
}

// beat sends a heartbeat if that does not block.
func (f *frameConn) beat() error {
	select {
	case f.turn <- struct{}{}:
	default:
		return nil
	}
	if f.err != nil {
		<-f.turn
		return f.err
	}
	_ = f.c.SetWriteDeadline(time.Now().Add(time.Millisecond))
	rest, err := f.start(frameHeartbeat, 0, f.nIn.Load(), nil)
	if err != nil && rest != nil {
		go f.finish(rest)
		return nil
	}
	<-f.turn
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// start encrypts a frame and writes as much as possible before the write deadline. If the deadline expires in the
// middle of the frame, start returns the rest. If it expires before the first byte, the frame has no effect: the next
// frame gets the same counter, under which no data has left the process.
func (f *frameConn) start(kind frameKind, space, tag uint64, data []byte) (rest []byte, err error) {
	f.buf = appendFrame(f.buf[:0], f.out, header{kind: kind, space: space, tag: tag, counter: f.nOut}, data)
	n := 0
	if !f.down {
		n, err = f.c.Write(f.buf)
	}
	late := errors.Is(err, os.ErrDeadlineExceeded)
	if late && n > 0 {
		rest = append([]byte(nil), f.buf[n:]...)
	}
	if err != nil && !late {
		err = f.broke(err)
	}
	if err == nil || n > 0 {
		f.nOut++
		if f.move != nil {
			f.sent.keep(f.buf)
		}
	}
	if cap(f.buf) > maxKeptBuffer {
		f.buf = nil
	}
	return rest, err
}

// finish holds the turn until the rest is written or the connection is closed.
func (f *frameConn) finish(rest []byte) {
	_ = f.c.SetWriteDeadline(time.Time{})
	if _, err := f.c.Write(rest); err != nil {
		_ = f.broke(err)
	}
	<-f.turn
}

// broke takes the error of a write. It returns nil if the connection may be made again: the reader sees to that.
func (f *frameConn) broke(err error) error {
	if f.move == nil || f.move.over() || !wasReset(err) {
		f.err = err
		return err
	}
	f.down, f.torn = true, f.torn || wasTorn(err)
	_ = f.c.SetReadDeadline(time.Now().Add(lastWords))
	return nil
}

func (f *frameConn) close() { _ = f.c.Close() }

// closeWrite tells the peer that no data follows.
func (f *frameConn) closeWrite() {
	if c, ok := f.c.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
	}
}
