package tcp

import (
	"bufio"
	"io"
	"net"
	"time"

	"github.com/goccl/goccl/internal/aead"
)

// stream is a connection after the handshake. A frame on it is its encrypted header and, if there is a payload, the
// payload encrypted as a separate record. So each part is authenticated before it is acted on, and no byte of a payload
// reaches registered memory before that.
//
// One goroutine reads, and one at a time writes. After an error the stream is unusable.
type stream struct {
	conn    net.Conn
	timeout time.Duration // for the rest of a record whose first bytes have arrived

	r    *bufio.Reader
	in   *aead.Cipher
	nIn  uint64 // number of records opened
	rbuf []byte

	out  *aead.Cipher
	nOut uint64 // number of records sealed
	wbuf []byte
	head [headerSize]byte
}

const sealedHeader = headerSize + aead.Overhead

func newStream(c net.Conn, timeout time.Duration, in, out *aead.Cipher) *stream {
	return &stream{conn: c, timeout: timeout, r: bufio.NewReaderSize(c, 16<<10), in: in, out: out}
}

// write sends a frame in one piece. The caller has set the deadline.
func (s *stream) write(h header, payload []byte) error {
	h.put(&s.head)
	n := sealedHeader
	if len(payload) > 0 {
		n += len(payload) + aead.Overhead
	}
	if cap(s.wbuf) < n {
		s.wbuf = make([]byte, 0, n)
	}
	b := s.out.Seal(s.wbuf[:0], s.nOut, s.head[:], nil)
	s.nOut++
	if len(payload) > 0 {
		b = s.out.Seal(b, s.nOut, payload, nil)
		s.nOut++
	}
	_, err := s.conn.Write(b)
	return err
}

// first reads one frame without a payload directly from the connection, and nothing after it. The caller has set the
// deadline.
func (s *stream) first() (header, error) {
	b := make([]byte, sealedHeader)
	if _, err := io.ReadFull(s.conn, b); err != nil {
		return header{}, err
	}
	plain, err := s.in.Open(s.nIn, b, nil)
	if s.nIn++; err != nil {
		return header{}, err
	}
	return parseHeader((*[headerSize]byte)(plain))
}

// read waits for a header.
func (s *stream) read() (header, error) {
	if _, err := s.r.Peek(1); err != nil {
		return header{}, err
	}
	b, err := s.record(sealedHeader)
	if err != nil {
		return header{}, err
	}
	return parseHeader((*[headerSize]byte)(b))
}

// payload returns the payload of a header with a length. It is valid until the next read.
func (s *stream) payload(n int) ([]byte, error) { return s.record(n + aead.Overhead) }

// record receives and opens the next n bytes, which must arrive within the timeout.
func (s *stream) record(n int) ([]byte, error) {
	if cap(s.rbuf) < n {
		s.rbuf = make([]byte, n)
	}
	b := s.rbuf[:n]
	if s.r.Buffered() < n {
		if err := s.conn.SetReadDeadline(time.Now().Add(s.timeout)); err != nil {
			return nil, err
		}
		defer func() { _ = s.conn.SetReadDeadline(time.Time{}) }()
	}
	if _, err := io.ReadFull(s.r, b); err != nil {
		return nil, err
	}
	plain, err := s.in.Open(s.nIn, b, nil)
	s.nIn++
	return plain, err
}
