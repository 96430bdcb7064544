package tcp

import (
	"fmt"
	"net/netip"

	"github.com/goccl/goccl/transport/wire"
)

const (
	kindAddress    = 0x30
	addressVersion = 1
	// maxSockets bounds the connections of a Peer.
	maxSockets = 64
)

// address is what one half of a Peer sends to the other.
type address struct {
	at      netip.AddrPort
	cred    Credential
	sockets int
	encrypt bool
}

func (a *address) encode() []byte {
	var w wire.Writer
	at, _ := a.at.MarshalBinary() // cannot fail
	w.Bytes(at)
	w.U64(a.cred.Endpoint)
	w.Raw(a.cred.Secret[:])
	w.U8(uint8(a.sockets))
	w.U8(map[bool]uint8{true: 1}[a.encrypt])
	return w.Seal(kindAddress, addressVersion)
}

func parseAddress(b []byte) (a address, err error) {
	r := wire.Open(b, kindAddress, addressVersion)
	if err := a.at.UnmarshalBinary(r.Bytes(64)); err != nil || !a.at.IsValid() {
		r.Fail("no address of a host")
	}
	a.cred.Endpoint = r.U64()
	copy(a.cred.Secret[:], r.Raw(len(a.cred.Secret)))
	a.sockets = int(r.U8())
	if a.sockets == 0 || a.sockets > maxSockets {
		r.Fail("%d sockets", a.sockets)
	}
	a.encrypt = r.U8() != 0
	if err := r.Done(); err != nil {
		return a, fmt.Errorf("tcp: address of a peer: %w", err)
	}
	return a, nil
}
