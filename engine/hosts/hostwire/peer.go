package hostwire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport"
)

const (
	slots = 8
	// creditEvery slots are returned at a time.
	creditEvery = slots / 2
	// creditImmediate counts the credits of a peer. Immediates below slots count the arrivals in a slot.
	creditImmediate = slots
	headerBytes     = 64

	mostSlot   = 256 << 10
	leastSlot  = 16 << 10
	mostMemory = 64 << 20
)

// slotFor is the size of a slot for a rank with this number of peers at set-up.
func slotFor(peers int) int64 {
	each := mostMemory / int64(max(1, peers)) / (2 * slots)
	return min(mostSlot, max(leastSlot, each)) &^ 4095
}

// peer is the traffic with one rank.
type peer struct {
	rank int
	t    transport.Peer

	in          *box
	slot        int64 // bytes of a slot of in
	out         *box  // made when the peer's slot size is known
	remoteSlot  int64
	remote      transport.RemoteRegion
	connected   atomic.Bool
	sent, taken uint64 // pieces so far
	owed        int    // slots freed since the latest credit
}

// offerBytes is the size of the fixed part of an offer: the slot size. The key of the inbox follows.
const offerBytes = 8

// offer makes the inbox.
func (w *Wire) offer(rank int, t transport.Peer) ([]byte, error) {
	p := w.peers[rank]
	p.t, p.slot = t, w.slot
	var err error
	if p.in, err = w.newBox(slots * p.slot); err != nil {
		return nil, err
	}
	for k := range uint32(creditImmediate + 1) {
		t.OnArrival(k, w.ring)
	}
	return append(binary.LittleEndian.AppendUint64(nil, uint64(p.slot)), p.in.region.Key()...), nil
}

// ready makes the outbox for the slots that the peer offers.
func (w *Wire) ready(rank int, t transport.Peer, offer []byte) (err error) {
	p := w.peers[rank]
	if len(offer) < offerBytes {
		return fmt.Errorf("%w: an offer of %d bytes", bootstrap.ErrProtocol, len(offer))
	}
	p.remoteSlot = int64(binary.LittleEndian.Uint64(offer))
	if p.remoteSlot < leastSlot || p.remoteSlot > mostSlot || p.remoteSlot%4096 != 0 {
		return fmt.Errorf("%w: slots of %d bytes", bootstrap.ErrProtocol, p.remoteSlot)
	}
	if p.remote, err = t.Import(offer[offerBytes:]); err != nil {
		return err
	}
	if p.remote.Size() < slots*p.remoteSlot {
		return fmt.Errorf("%w: %d slots of %d bytes in %d bytes", bootstrap.ErrProtocol, slots, p.remoteSlot,
			p.remote.Size())
	}
	if p.out, err = w.newBox(slots * p.remoteSlot); err != nil {
		return err
	}
	p.connected.Store(true)
	w.tasks.Go(func() { w.watch(p) })
	return nil
}

// room reports whether the next piece can be sent. The peer has taken a piece when its credit arrives, so nothing waits
// for the completion of a put.
func (p *peer) room() bool {
	return p.sent < slots+creditEvery*p.t.Arrived(creditImmediate)
}

// put sends one piece: header and data.
func (p *peer) put(h header, data []byte) error {
	k := p.sent % slots
	at := int64(k) * p.remoteSlot
	b := p.out.slot(k, p.remoteSlot)[:headerBytes+len(data)]
	copy(b, plain.Bytes(&h))
	copy(b[headerBytes:], data)
	if err := p.t.Put(p.out.region, at, p.remote, at, int64(len(b)), uint32(k), nil); err != nil {
		return err
	}
	p.sent++
	return nil
}

// piece returns the next piece that has arrived, or nil.
func (p *peer) piece() []byte {
	k := p.taken % slots
	if p.t.Arrived(uint32(k)) <= p.taken/slots {
		return nil
	}
	return p.in.slot(k, p.slot)
}

// free returns the slot of the piece. A peer that is gone needs no credit: an error is met by the next message.
func (p *peer) free() {
	p.taken++
	if p.owed++; p.owed == creditEvery {
		p.owed = 0
		_ = p.t.Put(p.out.region, 0, p.remote, 0, 0, creditImmediate, nil)
	}
}

func (p *peer) close() error { return errors.Join(p.in.close(), p.out.close()) }

// header begins a piece. A receiver compares it with the header that it expects, so that ranks that call different
// operations find that out before a byte is written.
type header struct {
	op    uint64 // the hash of the collective and its number; 0 for messages between pairs, which are numbered locally
	total uint64 // of the message
	piece uint64
}
