package primitive

import (
	"errors"
	"fmt"
	"sync"

	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/wire"
)

// SemaphoreStub is one side's half of a semaphore: the counter that the peer increments, and the connection by which
// this side reaches the peer. It is exchanged for the peer's stub; the two make a Semaphore.
type SemaphoreStub struct {
	conn  *Connection       // local stubs
	token *token            // local stubs
	mem   *RegisteredMemory // remote stubs
	once  sync.Once
}

// NewSemaphoreStub makes this side's half over a connection.
func NewSemaphoreStub(conn *Connection) (*SemaphoreStub, error) {
	const op = "semaphore stub"
	if conn == nil {
		return nil, invalid(op, "the connection is nil")
	}
	c := conn.ctx
	if err := c.usable(op); err != nil {
		return nil, err
	}
	// Over a network this process's receiver adds to the counter, so the processor must be able to access it.
	pool, err := c.tokenPool(conn.local.dev, conn.Transport().network())
	if err != nil {
		return nil, conn.wrap(err, op)
	}
	t, err := pool.get(c)
	if err != nil {
		return nil, conn.wrap(err, op)
	}
	s := &SemaphoreStub{conn: conn, token: t}
	c.waits(t, conn)
	if err := c.own(s); err != nil {
		return nil, errors.Join(conn.wrap(err, op), s.Close())
	}
	return s, nil
}

// Connection returns the connection of a local stub, and nil for a remote one.
func (s *SemaphoreStub) Connection() *Connection { return s.conn }

const stubVersion = 1

// Serialize encodes the stub for the peer.
func (s *SemaphoreStub) Serialize() ([]byte, error) {
	const op = "serialize semaphore stub"
	if s.token == nil {
		return nil, invalid(op, "only the owner of a stub can serialise it")
	}
	var w wire.Writer
	w.U8(uint8(s.conn.Transport()))
	if err := s.token.slab.mem.put(&w, s.token.offset, transport.TokenSize); err != nil {
		return nil, s.conn.wrap(err, op)
	}
	return w.Seal(kindStub, stubVersion), nil
}

// DeserializeSemaphoreStub decodes the result of the peer's Serialize.
func (c *Context) DeserializeSemaphoreStub(data []byte) (*SemaphoreStub, error) {
	const op = "deserialize semaphore stub"
	if err := c.usable(op); err != nil {
		return nil, err
	}
	r := wire.Open(data, kindStub, stubVersion)
	t := Transport(r.U8())
	m := c.getMemory(r)
	if !t.Valid() || !m.flags.Has(t) {
		r.Fail("transport %v of a memory for %v", t, m.flags)
	}
	if m.size != transport.TokenSize || m.origin.offset%transport.TokenSize != 0 {
		r.Fail("a token of %d bytes at offset %d", m.size, m.origin.offset)
	}
	if err := r.Done(); err != nil {
		return nil, failure(op, c.Rank(), NoRank, fmt.Errorf("%w: %w", ErrInvalid, err))
	}
	if err := m.adopt(); err != nil {
		return nil, c.wrap(err, op, NoRank)
	}
	return &SemaphoreStub{mem: m}, nil
}

// Close frees the counter. The semaphores made from the stub must not be used after that.
func (s *SemaphoreStub) Close() error {
	var err error
	s.once.Do(func() {
		if s.mem != nil {
			err = s.mem.Close()
			return
		}
		c := s.conn.ctx
		c.disown(s)
		c.waits(s.token, nil)
		s.token.pool.put(s.token)
	})
	return err
}
