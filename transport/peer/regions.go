package peer

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/wire"
)

// RemoteRegion is a peer's region that its process knows by an ID.
type RemoteRegion struct {
	ID    uint64
	bytes int64
}

// Size implements transport.RemoteRegion.
func (r *RemoteRegion) Size() int64 { return r.bytes }

const keyVersion = 1

// Key encodes the id and the size of a region. kind tells the keys of networks apart.
func Key(kind uint8, id uint64, size int64) []byte {
	var w wire.Writer
	w.U64(id)
	w.U64(uint64(size))
	return w.Seal(kind, keyVersion)
}

// ParseKey decodes a Key of a network.
func ParseKey(network string, kind uint8, key []byte) (transport.RemoteRegion, error) {
	r := wire.Open(key, kind, keyVersion)
	rr := &RemoteRegion{ID: r.U64(), bytes: int64(r.U64())}
	if rr.bytes < 0 {
		r.Fail("size %d", rr.bytes)
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("%s: key of a region: %w", network, err)
	}
	return rr, nil
}

// NewID returns a number that is hard to guess, and not 0.
func NewID() uint64 {
	var b [8]byte
	for {
		_, _ = rand.Read(b[:]) // never fails
		if id := binary.LittleEndian.Uint64(b[:]); id != 0 {
			return id
		}
	}
}

// CheckPut returns an error if the bytes of a put are not inside of a source of from bytes and a destination of to
// bytes.
func CheckPut(size, srcOff, from, dstOff, to int64) error {
	if size < 0 || dstOff < 0 || dstOff > to-size {
		return fmt.Errorf("%w: %d bytes at offset %d of a destination of %d", transport.ErrBounds, size, dstOff, to)
	}
	if size > 0 && (srcOff < 0 || srcOff > from-size) {
		return fmt.Errorf("%w: %d bytes at offset %d of a source of %d", transport.ErrBounds, size, srcOff, from)
	}
	return nil
}
