package link

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/plain"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/peer"
)

// ErrStuck breaks a Link after Options.Timeout.
var ErrStuck = errors.New("link: the peer's process applies nothing")

// Options configures a Link.
type Options struct {
	// Source is the device whose memory Write reads; nil is the host.
	Source device.Device
	// Sources are the memories that need no staging; nil is none.
	Sources *Sources
	// Timeout bounds how long an operation waits because the peer applies nothing; 0 is no bound.
	Timeout time.Duration
	// Broken is called once when the peer vanishes or refuses an operation.
	Broken func(error)
	// Blame returns the rank that made this side close, or a negative number; nil is nobody. Blamed gets the rank that the
	// peer's Receiver named when it closed. It is called on a goroutine of the network.
	Blame  func() int
	Blamed func(rank int)
}

// Link is the sending end of one direction. It implements transport.Link. Import names the peer's memories.
type Link struct {
	port    transport.Port
	peer    transport.Peer
	opt     Options
	ring    transport.RemoteRegion // the peer's ring of commands
	stage   transport.RemoteRegion // the peer's staging buffers
	batch   transport.Batcher      // the Peer, or nil if it is none
	failure *peer.Failure          // why operations fail: the Peer's error, a refusal, or a timeout
	watch   sync.WaitGroup

	ctx    context.Context // ends when Close or Hurry is called
	cancel context.CancelFunc

	mu       sync.Mutex      // orders the operations; guards the fields below
	limit    context.Context // ends waits for room: ctx, or during Close the timeout of the goodbye
	commands *buffer         // by slot: source of the puts into the ring
	staging  *buffer         // by slot: where this side stages sources; nil until needed
	next     uint64          // number of the next command
	writes   [slots]uint64   // by slot: writes that its commands have covered
	pending  uint64          // writes since the last command
	echoes   uint64          // echoes asked for
	imports  map[uint64]transport.RemoteRegion
	closed   bool

	markMu sync.Mutex // guards marks; taken inside mu
	marks  []mark     // in order of echo
}

// mark is a word to set when an echo has come.
type mark struct {
	echo  uint64
	word  device.Ptr
	value uint64
}

// Dial makes a Link of a port. exchange carries the request to the peer's Receiver.Accept and returns its reply.
func Dial(ctx context.Context, p transport.Port, exchange func(ctx context.Context, request []byte) ([]byte, error),
	opt Options) (_ *Link, err error) {
	half, err := p.NewPeer()
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("link: %w", errors.Join(err, half.Close()))
		}
	}()
	commands, err := newBuffer(p, slots*commandSize)
	if err != nil {
		return nil, err
	}
	mine := offer{address: half.Address(), ring: commands.region.Key()}
	var theirs offer
	b, err := exchange(ctx, mine.encode())
	if err == nil {
		theirs, err = parseOffer(b)
	}
	if err == nil {
		err = half.Connect(ctx, theirs.address)
	}
	if err == nil {
		return open(p, half, commands, &theirs, opt)
	}
	_ = half.Close()
	commands.free()
	return nil, err
}

// open makes the Link of a Peer that is connected. It takes over commands.
func open(p transport.Port, half transport.Peer, commands *buffer, theirs *offer, opt Options) (*Link, error) {
	l := &Link{port: p, peer: half, opt: opt, failure: peer.NewFailure(), commands: commands,
		imports: map[uint64]transport.RemoteRegion{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.limit = l.ctx
	l.batch, _ = half.(transport.Batcher)
	var err error
	if l.ring, err = half.Import(theirs.ring); err == nil {
		l.stage, err = half.Import(theirs.stage)
	}
	if err != nil {
		_ = half.Close()
		commands.free()
		return nil, err
	}
	half.OnArrival(immEcho, l.echoed)
	half.OnArrival(immBye, func(uint64) { blamed(binary.LittleEndian.Uint64(commands.b[spare:]), opt.Blamed) })
	for i, why := range refusals {
		refused := func(n uint64) {
			if n > 0 {
				l.failure.Fail(why)
			}
		}
		half.OnArrival(immRefused+uint32(i), refused)
		refused(half.Arrived(immRefused + uint32(i)))
	}
	l.watch.Go(l.report)
	return l, nil
}

// report tells the owner when the Link breaks.
func (l *Link) report() {
	select {
	case <-l.failure.Failed():
	case <-l.peer.Failed():
		l.failure.Fail(l.peer.Err())
	}
	err := l.failure.Err()
	if l.opt.Broken != nil && !errors.Is(err, transport.ErrClosed) && !errors.Is(err, transport.ErrPeerClosed) {
		l.opt.Broken(err)
	}
}

// Import lets operations name the peer's memory: Remote.Region is id, under which the peer's Receiver has registered
// it. key is the key of the peer's Region, or nil if the network cannot reach the memory.
func (l *Link) Import(id uint64, key []byte) error {
	var r transport.RemoteRegion
	if key != nil {
		var err error
		if r, err = l.peer.Import(key); err != nil {
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.imports[id] = r
	return nil
}

// command puts the next command. The caller holds mu.
func (l *Link) command(c command) error {
	s, err := l.slot()
	if err != nil {
		return err
	}
	l.writes[s] += l.pending
	c.writes, l.pending = l.writes[s], 0
	copy(l.commands.b[commandSize*s:], plain.Bytes(&c))
	l.next++
	at := int64(commandSize * s)
	return l.put(l.commands.region, at, l.ring, at, commandSize, immCommand+uint32(s))
}

// slot waits until the next command's slot is free, and returns it. The caller holds mu.
func (l *Link) slot() (int, error) {
	if l.closed {
		return 0, transport.ErrClosed
	}
	if err := l.failure.Err(); err != nil {
		return 0, err
	}
	if l.next >= slots {
		// Credit c says that c·creditEach commands are applied.
		need := (l.next - slots + creditEach) / creditEach
		if l.peer.Arrived(immCredit) < need {
			if err := l.awaitCredit(need); err != nil {
				return 0, err
			}
		}
	}
	return int(l.next % slots), nil
}

func (l *Link) awaitCredit(n uint64) error {
	ctx, late := l.limit, error(nil)
	if l.opt.Timeout > 0 {
		late = fmt.Errorf("%w for %v", ErrStuck, l.opt.Timeout)
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, l.opt.Timeout, late)
		defer stop()
	}
	err := l.peer.Wait(ctx, immCredit, n)
	switch {
	case err == nil:
		return nil
	case l.ctx.Err() != nil:
		return transport.ErrClosed
	case err == late:
		l.failure.Fail(late)
	}
	return l.reason(err)
}

// reason prefers the first failure, for example a refusal, to the end of the Peer that follows it.
func (l *Link) reason(err error) error {
	return cmp.Or(l.failure.Err(), err)
}

// put retries while the network's queue is full. The caller holds mu.
func (l *Link) put(src transport.Region, off int64, dst transport.RemoteRegion, dstOff, n int64, imm uint32) error {
	for {
		err := l.peer.Put(src, off, dst, dstOff, n, imm, nil)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, transport.ErrQueueFull):
			return l.reason(err)
		}
		select {
		case <-time.After(20 * time.Microsecond):
		case <-l.limit.Done():
			return transport.ErrClosed
		}
	}
}

func (l *Link) word(o op, dst transport.Remote, value uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.imported(dst); err != nil {
		return err
	}
	return l.command(command{op: o, region: dst.Region, offset: dst.Offset, value: value})
}

// imported returns the peer's memory; nil if the network cannot reach it. The caller holds mu.
func (l *Link) imported(dst transport.Remote) (transport.RemoteRegion, error) {
	r, ok := l.imports[dst.Region]
	if !ok {
		return nil, fmt.Errorf("link: %w: memory %#x was not imported", transport.ErrNotReachable, dst.Region)
	}
	return r, nil
}

// Add, Store and Signal are commands.
func (l *Link) Add(dst transport.Remote, delta uint64) error   { return l.word(opAdd, dst, delta) }
func (l *Link) Store(dst transport.Remote, value uint64) error { return l.word(opStore, dst, value) }

// Signal adds one at the peer; total is not needed, since the Receiver applies the addition itself.
func (l *Link) Signal(dst transport.Remote, _ uint64) error { return l.word(opSignal, dst, 1) }

// echo asks for an echo of everything so far. m, if not nil, is set then.
func (l *Link) echo(m *mark) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.echoes++
	n := l.echoes
	if m != nil {
		m.echo = n
		l.markMu.Lock()
		l.marks = append(l.marks, *m)
		l.markMu.Unlock()
	}
	return n, l.command(command{op: opEcho})
}

// echoed sets the words of the marks whose echo has come.
func (l *Link) echoed(n uint64) {
	l.markMu.Lock()
	defer l.markMu.Unlock()
	for len(l.marks) > 0 && l.marks[0].echo <= n {
		wait.At(*(*unsafe.Pointer)(unsafe.Pointer(&l.marks[0].word))).Store(l.marks[0].value)
		l.marks = l.marks[1:]
	}
}

// Mark asks for an echo, which sets the word.
func (l *Link) Mark(word device.Ptr, value uint64) error {
	_, err := l.echo(&mark{word: word, value: value})
	return err
}

// Flush waits for an echo.
func (l *Link) Flush(ctx context.Context) error {
	n, err := l.echo(nil)
	if err != nil {
		return err
	}
	if err := l.peer.Wait(ctx, immEcho, n); err != nil {
		return l.reason(err)
	}
	return nil
}

// Err returns the error that broke the link.
func (l *Link) Err() error {
	return l.reason(l.peer.Err())
}

// Hurry ends operations that wait for room in the ring.
func (l *Link) Hurry() { l.cancel() }

// byeTime bounds how long Close waits for room for the goodbye, and until that and all before it have arrived.
const byeTime = time.Second

// Close ends operations that wait for room, says goodbye and ends the connection.
func (l *Link) Close() error {
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if l.Err() == nil {
		ctx, cancel := context.WithTimeout(context.Background(), byeTime)
		l.limit = ctx
		_ = l.command(command{op: opBye, value: blame(l.opt.Blame)})
		_ = l.peer.Flush(ctx) // without room for the goodbye, too: what the ring has should arrive
		cancel()
	}
	l.closed = true
	err := l.peer.Close()
	l.peer.OnArrival(immBye, nil)
	l.watch.Wait()
	l.commands.free()
	l.staging.free()
	return err
}

var _ transport.Link = (*Link)(nil)
