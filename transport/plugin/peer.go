package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/driver/ncclnet"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/peer"
	"github.com/goccl/goccl/transport/wire"
)

// The connections of a Peer.
const (
	controlOut = iota
	dataOut
	controlIn
	dataIn
	numComms
)

// inFlight is how many messages of one connection are under way; version 6 allows no more.
const inFlight = 8

// use is a region on one connection.
type use struct {
	region *region
	comm   int
}

// Peer implements transport.Peer.
type Peer struct {
	port      *Port
	lib       *ncclnet.Library
	listeners [2]ncclnet.Listener // control, data
	address   []byte
	pending   peer.Pending
	peer.Arrivals
	*peer.Failure
	waiters  atomic.Int32
	kick     chan struct{}
	finished chan struct{} // closed when the goroutine has ended

	queueMu   sync.Mutex // guards the fields below
	joining   bool       // Connect was called
	connected bool
	number    uint64  // of the last put
	pieces    []piece // to be announced and sent
	unknown   []*put  // puts that the peer has not acknowledged, by number
	goodbye   uint32  // the kind of the last message

	mu       sync.Mutex // held while the plugin is called; guards the rest
	over     bool       // the connections are closed
	comms    [numComms]ncclnet.Comm
	handles  map[use]ncclnet.Handle
	users    map[*region]int
	buffer   []byte // control messages: the first half is sent, the second received
	progress progress
}

// put is a put that has begun.
type put struct {
	number uint64
	left   int // pieces that are not sent; of the goroutine
	epoch  uint64
	done   func(error)
	ended  bool // done was called
}

// piece is a part of a put.
type piece struct {
	control
	put *put
	src *region
	off int64
}

func newPeer(port *Port) (*Peer, error) {
	p := &Peer{port: port, lib: port.net.lib, Failure: peer.NewFailure(), kick: make(chan struct{}, 1),
		finished: make(chan struct{}), handles: map[use]ncclnet.Handle{}, users: map[*region]int{}}
	var w wire.Writer
	for i := range p.listeners {
		handle, at, err := p.lib.Listen(port.dev)
		if err != nil {
			p.closeListeners()
			return nil, err
		}
		p.listeners[i] = at
		w.Bytes(handle)
	}
	p.address = w.Seal(kindAddress, addressVersion)
	return p, nil
}

func (p *Peer) closeListeners() {
	for i, l := range p.listeners {
		if l != 0 {
			_ = p.lib.CloseListener(l)
			p.listeners[i] = 0
		}
	}
}

// Address holds the handles of the listeners.
func (p *Peer) Address() []byte { return p.address }

// Connect makes the four connections and starts the goroutine.
func (p *Peer) Connect(ctx context.Context, remote []byte) error {
	r := wire.Open(remote, kindAddress, addressVersion)
	handles := [2][]byte{r.Bytes(ncclnet.HandleSize), r.Bytes(ncclnet.HandleSize)}
	err := r.Done()
	if err != nil {
		return fmt.Errorf("plugin: address of a peer: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, p.port.net.opt.Timeout)
	defer cancel()
	p.queueMu.Lock()
	if p.joining || p.Err() != nil {
		p.queueMu.Unlock()
		return fmt.Errorf("plugin: connect: %w: this half is connected or closed", transport.ErrClosed)
	}
	p.joining = true
	p.queueMu.Unlock()
	result := make(chan error, 1)
	go func() {
		p.mu.Lock()
		err := p.join(ctx, handles)
		if err != nil {
			p.fail(err)
			p.cleanUp()
			close(p.finished)
		}
		p.mu.Unlock()
		result <- err
	}()
	select {
	case err = <-result:
	case <-after(ctx, blockedTime):
		// Plugins must not block in connect and accept. Some do: the goroutine cleans up if they ever return.
		err = fmt.Errorf("plugin: connect: %w: the plugin blocks, because the peer did not connect", context.Cause(ctx))
		p.fail(err)
		return err
	}
	if err != nil {
		return err
	}
	p.queueMu.Lock()
	p.connected = true
	p.queueMu.Unlock()
	go p.run()
	return nil
}

// blockedTime is how much later than its deadline a call of the plugin may return.
const blockedTime = 500 * time.Millisecond

// after returns a channel that is closed some time after the end of ctx.
func after(ctx context.Context, d time.Duration) <-chan struct{} {
	c := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(d, func() { close(c) }) })
	return c
}

// join makes the connections. The caller holds mu.
func (p *Peer) join(ctx context.Context, handles [2][]byte) error {
	var dials [2]*ncclnet.Dial
	for i, h := range handles {
		dials[i] = p.lib.NewDial(p.port.dev, h)
		defer dials[i].Close()
	}
	for {
		missing := 0
		for i := range 2 {
			var err error
			if c := &p.comms[controlOut+i]; *c == 0 {
				if *c, err = dials[i].Connect(); *c == 0 {
					missing++
				}
			}
			if c := &p.comms[controlIn+i]; err == nil && *c == 0 {
				if *c, err = p.lib.Accept(p.listeners[i]); *c == 0 {
					missing++
				}
			}
			if err != nil {
				return fmt.Errorf("plugin: connect: %w (%w)", transport.ErrPeerGone, err)
			}
		}
		if missing == 0 {
			return p.prepare()
		}
		select {
		case <-time.After(100 * time.Microsecond):
		case <-p.Failed():
			return p.Err()
		case <-ctx.Done():
			return fmt.Errorf("plugin: connect: %w: %d of 4 connections are missing", context.Cause(ctx), missing)
		}
	}
}

// Import decodes a key.
func (p *Peer) Import(key []byte) (transport.RemoteRegion, error) {
	return peer.ParseKey("plugin", kindRegion, key)
}

// Put queues the pieces.
func (p *Peer) Put(src transport.Region, srcOff int64, dst transport.RemoteRegion, dstOff, size int64, imm uint32,
	done func(error)) error {
	if err := peer.CheckImmediate(imm); err != nil {
		return err
	}
	to, ok := dst.(*peer.RemoteRegion)
	from, ok2 := src.(*region)
	if !ok || !ok2 && size != 0 {
		return fmt.Errorf("plugin: put: %w: from %T to %T, which are not both regions of this network", transport.ErrBounds,
			src, dst)
	}
	var room int64
	if from != nil {
		room = from.size
	}
	if err := peer.CheckPut(size, srcOff, room, dstOff, to.Size()); err != nil {
		return fmt.Errorf("plugin: put: %w", err)
	}
	pieces := max(1, (size+p.port.piece-1)/p.port.piece)
	p.queueMu.Lock()
	err := p.Err()
	if err == nil && !p.connected {
		err = fmt.Errorf("plugin: put: %w: not connected", transport.ErrClosed)
	}
	if err != nil {
		p.queueMu.Unlock()
		return err
	}
	p.number++
	q := &put{number: p.number, left: int(pieces), epoch: p.pending.Begin(), done: done}
	p.unknown = append(p.unknown, q)
	for i := range pieces {
		at := i * p.port.piece
		c := control{kind: kindPiece, imm: imm, region: to.ID, offset: uint64(dstOff + at),
			size: uint64(min(size-at, p.port.piece)), number: q.number}
		if i == 0 {
			c.pieces = uint64(pieces)
		}
		p.pieces = append(p.pieces, piece{c, q, from, srcOff + at})
	}
	p.queueMu.Unlock()
	p.wake()
	return nil
}

func (p *Peer) wake() { wait.Signal(p.kick) }

// Wait waits for n arrivals with imm.
func (p *Peer) Wait(ctx context.Context, imm uint32, n uint64) error {
	p.waiters.Add(1)
	defer p.waiters.Add(-1)
	p.wake()
	return p.Arrivals.Wait(ctx, imm, n, p.Failure, nil)
}

// Flush waits for the acknowledgements.
func (p *Peer) Flush(ctx context.Context) error {
	p.waiters.Add(1)
	defer p.waiters.Add(-1)
	return p.pending.Flush(ctx, p.Failure, p.wake)
}

// fail breaks the Peer. The goroutine cleans up.
func (p *Peer) fail(err error) {
	if p.Fail(err) {
		p.wake()
	}
}

// Close says goodbye.
func (p *Peer) Close() error {
	p.queueMu.Lock()
	joining := p.joining
	p.goodbye = cmp.Or(p.goodbye, kindBye)
	p.queueMu.Unlock()
	p.fail(transport.ErrClosed)
	if joining {
		select {
		case <-p.finished:
		case <-time.After(farewellTime + 2*time.Second): // the plugin blocks
		}
	} else {
		p.mu.Lock()
		p.cleanUp()
		p.mu.Unlock()
	}
	p.port.mu.Lock()
	defer p.port.mu.Unlock()
	delete(p.port.peers, p)
	return nil
}

// farewellTime bounds how long the last message may take.
const farewellTime = 300 * time.Millisecond

// farewell sends the last message and waits until the other side closes, so that the message is not lost.
func (p *Peer) farewell() {
	p.queueMu.Lock()
	kind := p.goodbye
	p.queueMu.Unlock()
	err := p.Err()
	if kind == 0 || errors.Is(err, transport.ErrPeerGone) || errors.Is(err, transport.ErrPeerClosed) {
		return
	}
	s := &p.progress
	sent := false
	for end := time.Now().Add(farewellTime); time.Now().Before(end); time.Sleep(100 * time.Microsecond) {
		if _, err = p.reap(); err == nil && !sent {
			sent, err = p.sendControl(&control{kind: kind})
		}
		if err != nil {
			return
		}
		if q := s.posted[s.next]; q != 0 { // its end shows that the other side has read the message and closed
			done, _, err := p.lib.Test(q)
			if err != nil {
				return
			}
			if done {
				s.posted[s.next] = 0
				s.next = (s.next + 1) % inFlight
			}
		}
	}
}

// cleanUp closes the plugin's objects. The caller holds mu.
func (p *Peer) cleanUp() {
	if p.over {
		return
	}
	p.over = true
	for u, h := range p.handles {
		_ = p.lib.Deregister(p.comms[u.comm], h)
	}
	for i, c := range [2]int{controlOut, controlIn} {
		if h := p.progress.handles[i]; h != 0 {
			_ = p.lib.Deregister(p.comms[c], h)
		}
	}
	for c, comm := range p.comms {
		switch {
		case comm == 0:
		case c < controlIn:
			_ = p.lib.CloseSend(comm)
		default:
			_ = p.lib.CloseReceive(comm)
		}
	}
	p.closeListeners()
	if p.buffer != nil {
		_ = unix.Munmap(p.buffer)
	}
}

// endAll ends the puts that are left with the error.
func (p *Peer) endAll() {
	p.queueMu.Lock()
	puts := p.unknown
	p.unknown, p.pieces = nil, nil
	p.queueMu.Unlock()
	for _, q := range puts {
		p.end(q, p.Err())
		p.pending.End(q.epoch)
	}
}
