package fdshare

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
)

// TicketSize is the size in bytes of a serialised Ticket.
const TicketSize = 64

// Ticket identifies one offered descriptor and authorises its holder to fetch it, little endian:
//
//	 0  magic "GCFD"
//	 4  version 1, three zero bytes
//	 8  offer number u64
//	16  socket name
//	32  token
type Ticket [TicketSize]byte

const (
	magic   = "GCFD"
	version = 1
)

// The errors of this package, for errors.Is.
var (
	ErrTicket   = errors.New("fdshare: not a ticket")
	ErrRefused  = errors.New("fdshare: refused: the offer was revoked, or the ticket is not genuine")
	ErrUser     = errors.New("fdshare: the other process belongs to another user")
	ErrGone     = errors.New("fdshare: the offering process is gone, or is in another network namespace")
	ErrProtocol = errors.New("fdshare: protocol violation")
	ErrClosed   = errors.New("fdshare: the server is closed")
)

type socketName [16]byte

func (n socketName) address() string { return "@goccl-fd-" + hex.EncodeToString(n[:]) }

func newTicket(number uint64, name socketName, token [32]byte) (t Ticket) {
	copy(t[0:], magic)
	t[4] = version
	binary.LittleEndian.PutUint64(t[8:], number)
	copy(t[16:], name[:])
	copy(t[32:], token[:])
	return t
}

func (t Ticket) number() uint64   { return binary.LittleEndian.Uint64(t[8:]) }
func (t Ticket) name() socketName { return socketName(t[16:32]) }
func (t Ticket) token() []byte    { return t[32:] }

// String returns the offer's number, never the token.
func (t Ticket) String() string { return fmt.Sprintf("fdshare.Ticket(%d)", t.number()) }

// GoString is String, so that %#v does not print the token either.
func (t Ticket) GoString() string { return t.String() }

// ParseTicket checks the form of b.
func ParseTicket(b []byte) (t Ticket, err error) {
	if len(b) != TicketSize {
		return t, fmt.Errorf("%w: %d bytes, want %d", ErrTicket, len(b), TicketSize)
	}
	copy(t[:], b)
	return t, t.check()
}

func (t Ticket) check() error {
	if string(t[:4]) != magic || t[4] != version || t[5]|t[6]|t[7] != 0 {
		return fmt.Errorf("%w: wrong magic or version", ErrTicket)
	}
	return nil
}
