package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl/transport"
)

// Memory is memory that records change. Offsets are checked against Size, and for words the alignment of 8, before a
// method is called. transport/tcp has the host's and the devices'.
type Memory interface {
	Size() int64
	Write(p []byte, off int64) error
	Add(off int64, delta uint64) error
	Store(off int64, value uint64) error
	Signal(off int64) error
}

// ReceiverOptions configures a Receiver.
type ReceiverOptions struct {
	// Timeout bounds the joining of the two halves after Accept; 0 is 30 s.
	Timeout time.Duration
	// Lost is called once for a Link whose process vanished without a goodbye. from is what Accept got.
	Lost func(from uint64, err error)
	// Blamed gets the rank that a Link's Close named as the cause.
	Blamed func(rank int)
}

// Receiver is this process's end of the Links of others.
type Receiver struct {
	port transport.Port
	opt  ReceiverOptions
	wg   sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	closed   bool
	memories map[uint64]*memory
	inbound  map[*inbound]struct{}
}

// memory is a registered Memory. mu is held while a record is applied, so that Unregister is a barrier.
type memory struct {
	mu sync.RWMutex
	m  Memory // nil: unregistered
}

// NewReceiver makes a Receiver of a port.
func NewReceiver(p transport.Port, opt ReceiverOptions) *Receiver {
	if opt.Timeout <= 0 {
		opt.Timeout = 30 * time.Second
	}
	return &Receiver{port: p, opt: opt, memories: map[uint64]*memory{}, inbound: map[*inbound]struct{}{}}
}

// Register lets Links name m by id in their records. id is hard to guess.
func (r *Receiver) Register(id uint64, m Memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memories[id] = &memory{m: m}
}

// Unregister revokes that. No record is applied to the memory after it has returned.
func (r *Receiver) Unregister(id uint64) {
	r.mu.Lock()
	m := r.memories[id]
	delete(r.memories, id)
	r.mu.Unlock()
	if m != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.m = nil
	}
}

// inbound is the far end of one Link.
type inbound struct {
	*Receiver
	peer        transport.Peer
	from        uint64
	ring, stage *buffer
	word        transport.RemoteRegion

	mu      sync.Mutex // held while records are applied; guards the fields below
	applied uint64
	used    [slots]uint64 // records of each slot
	broken  bool
	left    bool // a goodbye was applied
}

// Accept makes the far end for a Link's request, and joins the halves in the background.
func (r *Receiver) Accept(request []byte, from uint64) (reply []byte, err error) {
	want, err := parseOffer(request)
	if err != nil {
		return nil, err
	}
	in := &inbound{Receiver: r, from: from}
	if in.peer, err = r.port.NewPeer(); err != nil {
		return nil, err
	}
	fail := func(err error) ([]byte, error) {
		_ = in.peer.Close()
		in.ring.free()
		in.stage.free()
		return nil, err
	}
	if in.ring, err = newBuffer(r.port, slots*recordSize); err != nil {
		return fail(err)
	}
	if in.stage, err = newBuffer(r.port, slots*chunk); err != nil {
		return fail(err)
	}
	if in.word, err = in.peer.Import(want.ring); err != nil {
		return fail(err)
	}
	for s := range uint32(slots) {
		in.peer.OnArrival(immRecord+s, in.advance)
		in.peer.OnArrival(immData+s, in.advance)
	}
	mine := offer{in.peer.Address(), in.ring.region.Key(), in.stage.region.Key()}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return fail(transport.ErrClosed)
	}
	r.inbound[in] = struct{}{}
	r.wg.Go(func() { in.serve(want.address) })
	return mine.encode(), nil
}

// serve joins the halves and lives until the Link is gone.
func (in *inbound) serve(address []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), in.opt.Timeout)
	err := in.peer.Connect(ctx, address)
	cancel()
	if err == nil {
		<-in.peer.Failed()
		err = in.peer.Err()
	}
	_ = in.peer.Close()
	in.mu.Lock()
	in.broken = true
	left := in.left
	in.mu.Unlock()
	in.Receiver.mu.Lock()
	delete(in.inbound, in)
	closed := in.closed
	in.Receiver.mu.Unlock()
	in.ring.free()
	in.stage.free()
	orderly := errors.Is(err, transport.ErrClosed) || errors.Is(err, transport.ErrPeerClosed) || left
	if !orderly && !closed && in.opt.Lost != nil {
		in.opt.Lost(in.from, err)
	}
}

// advance applies the records that are next and complete.
func (in *inbound) advance(uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for !in.broken {
		s := uint32(in.applied % slots)
		if in.peer.Arrived(immRecord+s) <= in.used[s] {
			return
		}
		r, err := parseRecord(in.ring.b[recordSize*s:])
		if err == nil && in.peer.Arrived(immData+s) < r.writes {
			return
		}
		if err == nil {
			err = in.apply(&r, int(s))
		}
		if err != nil {
			in.broken = true
			go func() { _ = in.peer.Close() }() // a handler must not close its Peer
			return
		}
		in.used[s]++
		if in.applied++; in.applied%creditEach == 0 {
			in.tell(immCredit)
		}
	}
}

// tell puts no bytes: only the immediate counts.
func (in *inbound) tell(imm uint32) { _ = in.peer.Put(nil, 0, in.word, 0, 0, imm, nil) }

func (in *inbound) apply(r *record, slot int) error {
	switch r.op {
	case opEcho:
		in.tell(immEcho)
		return nil
	case opHold:
		return nil
	case opBye:
		in.left = true
		if r.value != 0 && r.value <= 1<<31 && in.opt.Blamed != nil {
			in.opt.Blamed(int(r.value - 1))
		}
		return nil
	}
	in.Receiver.mu.Lock()
	at := in.memories[r.region]
	in.Receiver.mu.Unlock()
	if at == nil {
		return fmt.Errorf("%w: link: no memory %#x", transport.ErrBounds, r.region)
	}
	at.mu.RLock()
	defer at.mu.RUnlock()
	n := uint64(8)
	if r.op == opWrite {
		n = r.length
	}
	m := at.m
	if m == nil || n > uint64(m.Size()) || r.offset > uint64(m.Size())-n || r.op != opWrite && r.offset%8 != 0 {
		return fmt.Errorf("%w: link: %d bytes at offset %d of memory %#x", transport.ErrBounds, n, r.offset, r.region)
	}
	off := int64(r.offset)
	switch r.op {
	case opAdd:
		return m.Add(off, r.value)
	case opStore:
		return m.Store(off, r.value)
	case opSignal:
		return m.Signal(off)
	}
	return m.Write(in.stage.b[slot*chunk:][:n], off)
}

// Close closes the far ends.
func (r *Receiver) Close() error {
	r.mu.Lock()
	r.closed = true
	all := make([]*inbound, 0, len(r.inbound))
	for in := range r.inbound {
		all = append(all, in)
	}
	r.mu.Unlock()
	for _, in := range all {
		_ = in.peer.Close()
	}
	r.wg.Wait()
	return nil
}
