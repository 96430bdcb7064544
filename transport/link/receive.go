package link

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/goccl/goccl/transport"
)

// ReceiverOptions configures a Receiver.
type ReceiverOptions struct {
	// Timeout bounds the joining of the two halves after Accept; 0 is 30 s.
	Timeout time.Duration
	// Lost is called once for a sender whose process vanished without a goodbye, or sent a command that was refused. from
	// is what Accept or Prepare got.
	Lost func(from uint64, err error)
	// Blame returns the rank that made this side close, or a negative number; nil is nobody. Blamed gets the rank that a
	// Link's Close named as the cause.
	Blame  func() int
	Blamed func(rank int)
}

// Receiver is this process's end of the Links of others: the memories that these may change, and the rings of commands.
type Receiver struct {
	port transport.Port
	opt  ReceiverOptions
	wg   sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	closed   bool
	memories map[uint64]*memory
	inbound  map[*inbound]struct{}
}

// memory is a registered Memory. mu is read-locked while a command is applied, so that Unregister is a barrier.
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

// Register lets Links name m by id in their commands. id is hard to guess.
func (r *Receiver) Register(id uint64, m Memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memories[id] = &memory{m: m}
}

// Unregister revokes that. No command is applied to the memory after it has returned.
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

// inbound is the receiving end of one direction.
type inbound struct {
	*Receiver
	peer        transport.Peer
	from        uint64
	ring, stage *buffer

	mu      sync.Mutex             // held while commands are applied; guards the fields below
	answers transport.RemoteRegion // what puts without bytes name; nil: the sender is not known yet, nothing is applied
	applied uint64                 // commands so far
	used    [slots]uint64          // by slot: commands that were applied
	broken  bool                   // nothing more is applied
	refused error                  // why a command was refused
	left    bool                   // a goodbye was applied
}

// receive makes the receiving end on a Peer. connect, if not nil, joins the halves; it is called in the background.
func (r *Receiver) receive(half transport.Peer, from uint64, connect func(ctx context.Context) error) (*inbound,
	error) {
	in := &inbound{Receiver: r, peer: half, from: from}
	var err error
	if in.ring, err = newBuffer(r.port, slots*commandSize); err != nil {
		return nil, err
	}
	if in.stage, err = newBuffer(r.port, slots*chunk); err != nil {
		in.ring.free()
		return nil, err
	}
	for s := range uint32(slots) {
		half.OnArrival(immCommand+s, in.advance)
		half.OnArrival(immData+s, in.advance)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		in.ring.free()
		in.stage.free()
		return nil, transport.ErrClosed
	}
	r.inbound[in] = struct{}{}
	r.wg.Go(func() { in.serve(connect) })
	return in, nil
}

// begin lets commands be applied. ring is the key of the sender's.
func (in *inbound) begin(ring []byte) error {
	answers, err := in.peer.Import(ring)
	if err != nil {
		return err
	}
	in.mu.Lock()
	in.answers = answers
	in.mu.Unlock()
	in.advance(0)
	return nil
}

// Accept makes the receiving end for a Dial's request, and joins the halves in the background.
func (r *Receiver) Accept(request []byte, from uint64) (reply []byte, err error) {
	theirs, err := parseOffer(request)
	if err != nil {
		return nil, err
	}
	half, err := r.port.NewPeer()
	if err != nil {
		return nil, err
	}
	in, err := r.receive(half, from, func(ctx context.Context) error { return half.Connect(ctx, theirs.address) })
	if err == nil {
		err = in.begin(theirs.ring)
	}
	if err != nil {
		return nil, errors.Join(err, half.Close())
	}
	mine := offer{half.Address(), in.ring.region.Key(), in.stage.region.Key()}
	return mine.encode(), nil
}

// End is one side of a connection that carries operations in both directions.
type End struct{ in *inbound }

// Prepare makes this side's end on a Peer that is not connected yet. The sides exchange the offers and the addresses,
// connect, and then each calls Open. The owner closes the Peer.
func (r *Receiver) Prepare(half transport.Peer, from uint64) (*End, error) {
	in, err := r.receive(half, from, nil)
	return &End{in}, err
}

// Offer is what the other side's Open gets.
func (e *End) Offer() []byte {
	return (&offer{ring: e.in.ring.region.Key(), stage: e.in.stage.region.Key()}).encode()
}

// Open begins both directions. The Link is the sending one.
func (e *End) Open(theirs []byte, opt Options) (*Link, error) {
	o, err := parseOffer(theirs)
	if err != nil {
		return nil, err
	}
	if err := e.in.begin(o.ring); err != nil {
		return nil, err
	}
	commands, err := newBuffer(e.in.port, slots*commandSize)
	if err != nil {
		return nil, err
	}
	return open(e.in.port, e.in.peer, commands, &o, opt)
}

// serve joins the halves and lives until the sender is gone.
func (in *inbound) serve(connect func(context.Context) error) {
	var err error
	if connect != nil {
		ctx, cancel := context.WithTimeout(context.Background(), in.opt.Timeout)
		err = connect(ctx)
		cancel()
	}
	if err == nil {
		<-in.peer.Failed()
		err = in.peer.Err()
	}
	_ = in.peer.Close()
	in.mu.Lock()
	in.broken = true
	left, refused := in.left, in.refused
	in.mu.Unlock()
	in.Receiver.mu.Lock()
	delete(in.inbound, in)
	closed := in.closed
	in.Receiver.mu.Unlock()
	in.ring.free()
	in.stage.free()
	orderly := errors.Is(err, transport.ErrClosed) || errors.Is(err, transport.ErrPeerClosed) || left
	if refused != nil {
		err, orderly = fmt.Errorf("%w: %w", transport.ErrPeerGone, refused), false
	}
	if !orderly && !closed && in.opt.Lost != nil {
		in.opt.Lost(in.from, err)
	}
}

// advance applies the commands that are next and complete.
func (in *inbound) advance(uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for !in.broken && in.answers != nil {
		s := uint32(in.applied % slots)
		if in.peer.Arrived(immCommand+s) <= in.used[s] {
			return
		}
		c, err := parseCommand(in.ring.b[commandSize*s:])
		if err == nil && in.peer.Arrived(immData+s) < c.writes {
			return
		}
		if err == nil {
			err = in.apply(&c, int(s))
		}
		if err != nil {
			in.broken = true
			if !errors.Is(err, transport.ErrClosed) {
				in.refused = err
			}
			go in.refuse(err) // a handler must not close its Peer
			return
		}
		in.used[s]++
		if in.applied++; in.applied%creditEach == 0 {
			in.answer(immCredit)
		}
	}
}

// answer puts no bytes: only the immediate counts.
func (in *inbound) answer(imm uint32) { _ = in.peer.Put(nil, 0, in.answers, 0, 0, imm, nil) }

// refuse tells the sender, and ends the connection.
func (in *inbound) refuse(err error) {
	ctx, cancel := context.WithTimeout(context.Background(), byeTime)
	defer cancel()
	switch {
	case errors.Is(err, transport.ErrClosed):
	case errors.Is(err, transport.ErrBounds):
		in.answer(immRefused)
	default:
		in.answer(immRefused + 1)
	}
	_ = in.peer.Flush(ctx)
	_ = in.peer.Close()
}

func (in *inbound) apply(c *command, slot int) error {
	switch c.op {
	case opEcho:
		in.answer(immEcho)
		return nil
	case opHold:
		return nil
	case opBye:
		in.left = true
		blamed(c.value, in.opt.Blamed)
		return nil
	}
	in.Receiver.mu.Lock()
	at := in.memories[c.region]
	in.Receiver.mu.Unlock()
	if at == nil {
		return fmt.Errorf("%w: link: no memory %#x", transport.ErrBounds, c.region)
	}
	at.mu.RLock()
	defer at.mu.RUnlock()
	return c.change(at.m, in.stage.b[slot*chunk:])
}

// change applies a command to a memory. A write takes its bytes from data.
func (c *command) change(m Memory, data []byte) error {
	n := uint64(8)
	if c.op == opWrite {
		n = c.length
	}
	if m == nil || n > uint64(m.Size()) || c.offset > uint64(m.Size())-n || c.op != opWrite && c.offset%8 != 0 {
		return fmt.Errorf("%w: link: %d bytes at offset %d of memory %#x", transport.ErrBounds, n, c.offset, c.region)
	}
	off := int64(c.offset)
	switch c.op {
	case opAdd:
		return m.Add(off, c.value)
	case opStore:
		return m.Store(off, c.value)
	case opSignal:
		return m.Signal(off)
	}
	return m.Write(data[:n], off)
}

// Close closes the receiving ends, and tells the senders who is to blame.
func (r *Receiver) Close() error {
	r.mu.Lock()
	r.closed = true
	all := slices.Collect(maps.Keys(r.inbound))
	r.mu.Unlock()
	word := blame(r.opt.Blame)
	for _, in := range all {
		r.wg.Go(func() {
			if word != 0 {
				in.goodbye(word)
			}
			_ = in.peer.Close()
		})
	}
	r.wg.Wait()
	return nil
}

// goodbye puts the word into the spare bytes of the sender's first command.
func (in *inbound) goodbye(word uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.broken || in.answers == nil {
		return
	}
	binary.LittleEndian.PutUint64(in.ring.b[spare:], word)
	if in.peer.Put(in.ring.region, spare, in.answers, spare, 8, immBye, nil) == nil {
		ctx, cancel := context.WithTimeout(context.Background(), byeTime)
		defer cancel()
		_ = in.peer.Flush(ctx)
	}
}

// blame encodes who made this side close: 1 + the rank, or 0.
func blame(who func() int) uint64 {
	if who != nil {
		if r := who(); r >= 0 {
			return uint64(r) + 1
		}
	}
	return 0
}

// blamed decodes what blame has made.
func blamed(word uint64, f func(rank int)) {
	if word != 0 && word <= 1<<31 && f != nil {
		f(int(word - 1))
	}
}
