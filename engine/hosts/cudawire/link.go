package cudawire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/launcher"
	"github.com/goccl/goccl/transport"
)

// link is the connection to one peer: the rings, and the words that kernels and the host share.
type link struct {
	w     *Wire
	rank  int
	peer  transport.Peer
	batch transport.Batcher // peer, or nil if it is none

	words *cuda.HostMemory
	rings device.Allocation // the rings of sends, then the rings of receives
	from  transport.Region  // the sends' rings: the source of puts
	into  transport.Region  // the receives' rings: the peer's destination
	to    transport.RemoteRegion

	// post and taken are written by kernels; flag and credit are written by the host.
	post, taken, flag, credit []atomic.Uint64

	// The proxy's: chunks put, and credits sent, by lane.
	put, credited []uint64
	full          bool // the network's queue was
	held          bool // batch is held
}

// Areas of words: two cache lines never have words of both the host and the GPU.
func (g geometry) wordsArea() (slots, lanes, all int64) {
	slots, lanes = (g.lanes*g.slots*8+127)&^127, (g.lanes*8+127)&^127
	return slots, lanes, 2 * (slots + lanes)
}

// ringsOf allocates rings where the network reaches them: in the GPU's memory, else in page-locked host memory.
func (w *Wire) ringsOf() (device.Allocation, transport.Region, transport.Region, error) {
	n := w.geo.ringBytes()
	if w.deviceMemory {
		mem, err := w.dev.Alloc(2 * n)
		if err != nil {
			return nil, nil, nil, err
		}
		from, into, err := w.registerRings(w.dev, mem.Ptr(), n)
		if err == nil {
			return mem, from, into, nil
		}
		if err = errors.Join(mem.Close(), err); !errors.Is(err, transport.ErrNotReachable) {
			return nil, nil, nil, err
		}
	}
	mem, err := w.dev.HostAlloc(2 * n)
	if err != nil {
		return nil, nil, nil, err
	}
	from, into, err := w.registerRings(w.host, mem.Host(), n)
	if err != nil {
		return nil, nil, nil, errors.Join(err, mem.Close())
	}
	return mem, from, into, nil
}

func (w *Wire) registerRings(dev device.Device, p device.Ptr, n int64) (from, into transport.Region, err error) {
	if from, err = w.port.Register(dev, p, n); err != nil {
		return nil, nil, err
	}
	if into, err = w.port.Register(dev, p.Add(n), n); err != nil {
		return nil, nil, errors.Join(err, from.Close())
	}
	return from, into, nil
}

// newLink allocates this rank's half. The link takes arrivals at once: the peer may be connected before this rank is.
func (w *Wire) newLink(rank int, peer transport.Peer) (*link, error) {
	g := w.geo
	slots, lanes, all := g.wordsArea()
	words, err := w.dev.HostAlloc(all)
	if err != nil {
		return nil, err
	}
	rings, from, into, err := w.ringsOf()
	if err != nil {
		return nil, errors.Join(err, words.Close())
	}
	view := func(off, n int64) []atomic.Uint64 {
		return unsafe.Slice((*atomic.Uint64)(unsafe.Add(words.Pointer(), off)), n)
	}
	l := &link{w: w, rank: rank, peer: peer, words: words, rings: rings, from: from, into: into,
		post: view(0, g.lanes*g.slots), taken: view(slots, g.lanes),
		flag: view(slots+lanes, g.lanes*g.slots), credit: view(2*slots+lanes, g.lanes),
		put: make([]uint64, g.lanes), credited: make([]uint64, g.lanes)}
	l.batch, _ = peer.(transport.Batcher)
	l.listen(g.data(0, 0), l.flag, 1)
	l.listen(g.credit(0), l.credit, g.half())
	return l, w.describe(l)
}

// listen stores the arrivals of the immediates from first on, times scale, in words. Callbacks of one immediate may
// overlap; the count never goes back.
func (l *link) listen(first uint32, words []atomic.Uint64, scale uint64) {
	for i := range words {
		store := func(arrived uint64) {
			for n := arrived * scale; ; {
				old := words[i].Load()
				if old >= n || words[i].CompareAndSwap(old, n) {
					return
				}
			}
		}
		l.peer.OnArrival(first+uint32(i), store)
		store(l.peer.Arrived(first + uint32(i)))
	}
}

// describe makes the link known to kernels. No kernel uses it before Connect has returned.
func (w *Wire) describe(l *link) error {
	slots, lanes, _ := w.geo.wordsArea()
	words, rings := uint64(l.words.Ptr()), uint64(l.rings.Ptr())
	x := linkWords{send: rings, recv: rings + uint64(w.geo.ringBytes()), post: words, taken: words + uint64(slots),
		flag: words + uint64(slots+lanes), credit: words + uint64(2*slots+lanes),
		counters: uint64(w.launcher.State.Ptr().Add(w.countersAt(l.rank))), peer: uint64(l.rank)}
	return w.dev.CopyIn(w.launcher.State.Ptr().Add(w.linkAt(l.rank)), bytes.Clone(launcher.Raw(&x)))
}

// offer is what the peer needs: the geometry, and the key of the rings that it writes.
func (l *link) offer() []byte {
	g := l.w.geo
	b := make([]byte, 0, 32)
	for _, v := range []int64{g.lanes, g.slots, g.slotBytes, g.least} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return append(b, l.into.Key()...)
}

// accept takes the peer's offer.
func (l *link) accept(offer []byte) (err error) {
	own := l.offer()[:32]
	if len(offer) < len(own) || !bytes.Equal(own, offer[:len(own)]) {
		return fmt.Errorf("%w: rank %d has rings of another shape: do all ranks run one version of goccl?",
			collective.ErrMismatch, l.rank)
	}
	l.to, err = l.peer.Import(offer[len(own):])
	return err
}

func (l *link) close() error {
	for i := range l.flag {
		l.peer.OnArrival(uint32(i), nil)
	}
	for i := range l.credit {
		l.peer.OnArrival(l.w.geo.credit(int64(i)), nil)
	}
	return errors.Join(l.from.Close(), l.into.Close(), l.rings.Close(), l.words.Close())
}
