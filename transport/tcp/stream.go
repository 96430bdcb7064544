package tcp

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/goccl/goccl/internal/aead"
)

// stream is a connection after the handshake. It carries messages: the length, u32 little endian, then the message
// encrypted, and authenticated together with the length. A lane takes over the connection after the join, with the
// ciphers and the numbers of messages. One goroutine at a time sends, and one receives. The caller sets deadlines.
type stream struct {
	conn      net.Conn
	in, out   *aead.Cipher
	nIn, nOut uint64 // messages received and sent
}

const (
	lengthSize = 4
	// maxMessage is the length of the longest message.
	maxMessage = 64 << 10
)

func (s *stream) send(b []byte) error {
	if len(b) > maxMessage {
		return fmt.Errorf("tcp: a message of %d bytes, at most %d allowed", len(b), maxMessage)
	}
	length := binary.LittleEndian.AppendUint32(nil, uint32(len(b)))
	sealed := s.out.Seal(append(make([]byte, 0, lengthSize+len(b)+aead.Overhead), length...), s.nOut, b, length)
	s.nOut++
	_, err := s.conn.Write(sealed)
	return err
}

// receive returns the next message. It reads nothing behind it.
func (s *stream) receive() ([]byte, error) {
	var length [lengthSize]byte
	if _, err := io.ReadFull(s.conn, length[:]); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n > maxMessage {
		return nil, fmt.Errorf("%w: a message of %d bytes, at most %d allowed", errFrame, n, maxMessage)
	}
	b := make([]byte, n+aead.Overhead)
	if _, err := io.ReadFull(s.conn, b); err != nil {
		return nil, err
	}
	plain, err := s.in.Open(s.nIn, b, length[:])
	s.nIn++
	return plain, err
}

// sendPacket and receivePacket carry the join of a lane.
func (s *stream) sendPacket(p packet) error {
	var b [packetSize]byte
	p.put(&b)
	return s.send(b[:])
}

func (s *stream) receivePacket() (packet, error) {
	b, err := s.receive()
	if err != nil {
		return packet{}, err
	}
	if len(b) != packetSize {
		return packet{}, fmt.Errorf("%w: %d bytes instead of a packet", errFrame, len(b))
	}
	return parsePacket(b)
}
