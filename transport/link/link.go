package link

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport"
)

// Options configures a Link.
type Options struct {
	// Source is the device whose memory Write reads; nil is the host.
	Source device.Device
	// Sources are the memories that need no staging; nil is none.
	Sources *Sources
	// Broken is called once when the peer vanishes or refuses an operation.
	Broken func(error)
	// Blame returns the rank that made this side close, or a negative number; nil is nobody.
	Blame func() int
}

// Link is one direction of a connection. It implements transport.Link. Import names the peer's memories.
type Link struct {
	port transport.Port
	peer transport.Peer
	opt  Options
	ring transport.RemoteRegion
	far  transport.RemoteRegion // the staging buffers there
	wg   sync.WaitGroup

	ctx    context.Context // ends with the Link
	cancel context.CancelFunc

	mu      sync.Mutex      // orders the operations; guards the fields below
	bound   context.Context // of waits for room: ctx, and in Close another one
	records *buffer         // slot by slot, what is put into the ring
	stage   *buffer         // staging buffers of this side; nil until needed
	next    uint64          // number of the next record
	open    uint64          // writes since the last record
	writes  [slots]uint64
	echoes  uint64 // echoes asked for
	imports map[uint64]transport.RemoteRegion

	marks struct {
		sync.Mutex
		queue []mark
	}
	closed bool
}

// mark is a word to set when an echo has come.
type mark struct {
	echo  uint64
	word  device.Ptr
	value uint64
}

// Dial makes a Link of a port. exchange carries the request to the peer's Receiver.Accept and returns its reply.
func Dial(ctx context.Context, p transport.Port, exchange func(ctx context.Context, request []byte) ([]byte, error),
	opt Options) (*Link, error) {
	l := &Link{port: p, opt: opt, imports: map[uint64]transport.RemoteRegion{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.bound = l.ctx
	var err error
	if l.peer, err = p.NewPeer(); err != nil {
		return nil, err
	}
	if err = l.join(ctx, exchange); err != nil {
		_ = l.peer.Close()
		l.records.free()
		return nil, fmt.Errorf("link: %w", err)
	}
	l.peer.OnArrival(immEcho, l.echoed)
	l.wg.Go(func() {
		<-l.peer.Failed()
		if err := l.peer.Err(); !errors.Is(err, transport.ErrClosed) && !errors.Is(err, transport.ErrPeerClosed) &&
			opt.Broken != nil {
			opt.Broken(err)
		}
	})
	return l, nil
}

func (l *Link) join(ctx context.Context, exchange func(context.Context, []byte) ([]byte, error)) error {
	var err error
	if l.records, err = newBuffer(l.port, slots*recordSize); err != nil {
		return err
	}
	mine := offer{address: l.peer.Address(), ring: l.records.region.Key()}
	b, err := exchange(ctx, mine.encode())
	if err != nil {
		return err
	}
	reply, err := parseOffer(b)
	if err != nil {
		return err
	}
	if l.ring, err = l.peer.Import(reply.ring); err != nil {
		return err
	}
	if l.far, err = l.peer.Import(reply.stage); err != nil {
		return err
	}
	return l.peer.Connect(ctx, reply.address)
}

// Import lets operations name the peer's memory: Remote.Region is id, under which the peer's Receiver has registered
// it. key is that of the peer's Region, or nil if the network cannot reach the memory.
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

// record puts the next record. The caller holds mu.
func (l *Link) record(r record) error {
	s, err := l.slot()
	if err != nil {
		return err
	}
	l.writes[s] += l.open
	r.writes, l.open = l.writes[s], 0
	b := l.records.b[recordSize*s:][:recordSize]
	r.put(b)
	l.next++
	return l.put(l.records.region, int64(recordSize*s), l.ring, int64(recordSize*s), recordSize, immRecord+uint32(s))
}

// slot waits until the next record's slot is free, and returns it. The caller holds mu.
func (l *Link) slot() (int, error) {
	if l.closed {
		return 0, transport.ErrClosed
	}
	if l.next >= slots {
		// Credit c says that c·creditEach records are applied.
		need := (l.next - slots + creditEach) / creditEach
		if err := l.peer.Wait(l.bound, immCredit, need); err != nil {
			return 0, l.reason(err)
		}
	}
	return int(l.next % slots), nil
}

func (l *Link) reason(err error) error {
	if l.ctx.Err() != nil {
		return transport.ErrClosed
	}
	return err
}

// put retries while the network's queue is full. The caller holds mu.
func (l *Link) put(src transport.Region, off int64, dst transport.RemoteRegion, dstOff, n int64, imm uint32) error {
	for {
		err := l.peer.Put(src, off, dst, dstOff, n, imm, nil)
		if !errors.Is(err, transport.ErrQueueFull) {
			return err
		}
		select {
		case <-time.After(20 * time.Microsecond):
		case <-l.bound.Done():
			return transport.ErrClosed
		}
	}
}

func (l *Link) word(o op, dst transport.Remote, value uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.imports[dst.Region]; !ok {
		return fmt.Errorf("link: %w: memory %#x was not imported", transport.ErrNotReachable, dst.Region)
	}
	return l.record(record{op: o, region: dst.Region, offset: dst.Offset, value: value})
}

// Add, Store and Signal are records.
func (l *Link) Add(dst transport.Remote, delta uint64) error   { return l.word(opAdd, dst, delta) }
func (l *Link) Store(dst transport.Remote, value uint64) error { return l.word(opStore, dst, value) }

// Signal adds one at the peer.
func (l *Link) Signal(dst transport.Remote, _ uint64, _ bool) error { return l.word(opSignal, dst, 1) }

// echo asks for an echo of everything so far. m, if not nil, is set then.
func (l *Link) echo(m *mark) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.echoes++
	n := l.echoes
	if m != nil {
		m.echo = n
		l.marks.Lock()
		l.marks.queue = append(l.marks.queue, *m)
		l.marks.Unlock()
	}
	return n, l.record(record{op: opEcho})
}

// echoed sets the words of the marks whose echo has come.
func (l *Link) echoed(n uint64) {
	l.marks.Lock()
	defer l.marks.Unlock()
	q := l.marks.queue
	for len(q) > 0 && q[0].echo <= n {
		wait.At(*(*unsafe.Pointer)(unsafe.Pointer(&q[0].word))).Store(q[0].value)
		q = q[1:]
	}
	l.marks.queue = q
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
	return l.peer.Wait(ctx, immEcho, n)
}

// Err returns the error that broke the link.
func (l *Link) Err() error { return l.peer.Err() }

// Hurry ends operations that wait for room in the ring.
func (l *Link) Hurry() { l.cancel() }

// byeTime bounds how long Close waits for room for the goodbye, and until that and all before it have arrived.
const byeTime = time.Second

// Close ends operations that wait for room, says goodbye and ends the link.
func (l *Link) Close() error {
	l.cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	if l.peer.Err() == nil {
		bye := record{op: opBye}
		if l.opt.Blame != nil {
			if r := l.opt.Blame(); r >= 0 {
				bye.value = uint64(r) + 1
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), byeTime)
		l.bound = ctx
		_ = l.record(bye)
		_ = l.peer.Flush(ctx) // without room for the goodbye, too: what the ring has should arrive
		cancel()
	}
	l.closed = true
	err := l.peer.Close()
	l.wg.Wait()
	l.records.free()
	l.stage.free()
	return err
}

var _ transport.Link = (*Link)(nil)
