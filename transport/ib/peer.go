package ib

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/driver/verbs"
	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/peer"
)

// Peer is one end of a connection.
type Peer struct {
	peer.Arrivals
	*peer.Failure
	answers peer.Arrivals // the peer's answers to questions of Flush, with immediate 0

	port    *Port         // of the adapter; it outlives the Peer
	channel verbs.Channel // on which the completion queue reports events
	cq      verbs.CQ      // of both sends and receives
	qp      verbs.QP      // of cq; restarted after an error
	wake    *waiter       // lets the goroutine sleep on channel
	qpn     uint32        // number of the queue pair
	psn     uint32        // number of the first packet that this half sends
	inline  int           // sends of up to this size are copied when they are posted

	mu        sync.Mutex              // guards queue, connected, asked and unasked
	queue     queue                   // requests that are posted, and those that wait for room
	connected bool                    // both hellos have come; only then are puts accepted
	asked     uint64                  // questions that Flush has sent; answers counts up to it
	unasked   bool                    // something was put since the last question
	remote    atomic.Pointer[address] // the peer's queue pair; nil until its hello
	gone      chan struct{}           // closed when the goodbye is acknowledged
	closing   sync.Once               // of Close
	stopped   chan struct{}           // closed when the goroutine has ended
	closeErr  error                   // what Close returns

	// Used by the goroutine alone, or by Connect before it starts the goroutine.
	generation uint64    // starts of the queue pair; completions of earlier ones are ignored
	received   []uint32  // immediates that have come and are not counted yet
	packets    uint32    // received before the goroutine runs: where the peer's numbers continue after a restart
	helloSent  bool      // this half's hello is acknowledged
	helloCame  bool      // the peer's hello has come
	failedAt   time.Time // when the goroutine saw that the Peer is broken; it waits flushTime for posted requests
	suspected  bool      // a request was flushed: the Peer breaks soon, with a better reason if one comes

	restarts atomic.Int64 // hellos that were sent again
}

var _ transport.Peer = (*Peer)(nil)

// inlineSize is up to which size a put's bytes are copied into the work request.
const inlineSize = 64

// NewPeer makes this side's half of a connection.
func (p *Port) NewPeer() (transport.Peer, error) {
	leave, err := p.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	o := p.opt
	sends := min(o.SendDepth, int(p.attr.QueueDepth))
	receives := min(o.ReceiveDepth, int(p.attr.QueueDepth))
	n := &Peer{Failure: peer.NewFailure(), port: p, queue: queue{depth: sends, limit: o.QueueLimit},
		gone: make(chan struct{}), stopped: make(chan struct{})}
	var b [4]byte
	_, _ = rand.Read(b[:])
	n.psn = binary.LittleEndian.Uint32(b[:]) >> 8
	if err := n.allocate(sends, receives); err != nil {
		return nil, errors.Join(fmt.Errorf("ib: %s: make a queue pair: %w%s", p.nic, err, lockedHint(err)), n.free())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.peers[n] = struct{}{}
	return n, nil
}

func (p *Peer) allocate(sends, receives int) (err error) {
	var fd int
	if p.channel, fd, err = p.port.context.Channel(); err != nil {
		return err
	}
	if p.wake, err = newWaiter(fd); err != nil {
		return err
	}
	if p.cq, err = p.port.context.CQ(sends+receives, p.channel); err != nil {
		return err
	}
	if p.qp, p.qpn, p.inline, err = p.port.pd.QP(p.cq, sends, receives, inlineSize); err != nil {
		return err
	}
	return p.qp.Init(p.port.adapter.port)
}

// free gives everything back that allocate took.
func (p *Peer) free() error {
	err := errors.Join(device.CloseAll(p.qp), device.CloseAll(p.cq))
	if p.wake != nil {
		p.wake.close()
	}
	return errors.Join(err, device.CloseAll(p.channel))
}

// way names both ends, for errors.
func (p *Peer) way() string {
	if r := p.remote.Load(); r != nil {
		return fmt.Sprintf("%s to %s of host %s", p.port.nic, r.nic, r.host)
	}
	return p.port.nic + " to an unknown peer"
}

// Immediates of this package, beside those below NumImmediates.
const (
	control  = 1 << 31
	hello    = control | 1
	goodbye  = control | 2
	question = control | 3 // of Flush
	answer   = control | 4
)

// Put writes to the peer's memory.
func (p *Peer) Put(src transport.Region, srcOff int64, dst transport.RemoteRegion, dstOff, size int64, imm uint32,
	done func(error)) error {
	if err := peer.CheckImmediate(imm); err != nil {
		return err
	}
	from, to, err := p.ends(src, srcOff, dst, dstOff, size)
	if err != nil {
		return err
	}
	chunk := int64(max(p.port.attr.MaxMessage>>1, 1<<20)) // a message of the full size takes 2³¹ bytes
	n := int(max(1, (size+chunk-1)/chunk))
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.writable(n); err != nil {
		return err
	}
	r := request{work: verbs.Work{Local: from.addr + uint64(srcOff), LKey: from.mr.LKey, Remote: to.addr + uint64(dstOff),
		RKey: to.rkey, Opcode: verbs.Write, Flags: verbs.Signaled}}
	for ; n > 1; n-- {
		r.work.Length = uint32(chunk)
		p.queue.add(&r)
		r.work.Local += uint64(chunk)
		r.work.Remote += uint64(chunk)
		size -= chunk
	}
	r.work.Length, r.work.Imm, r.work.Opcode = uint32(size), imm, verbs.WriteImmediate
	if size > 0 && size <= int64(p.inline) && from.dev == (device.ID{}) {
		r.work.Flags |= verbs.Inline
	}
	r.done = done
	p.queue.add(&r)
	p.unasked = true
	p.pump()
	return nil
}

// ends checks the bounds of a put.
func (p *Peer) ends(src transport.Region, srcOff int64, dst transport.RemoteRegion, dstOff, size int64) (*region,
	*remoteRegion, error) {
	from, ok := src.(*region)
	to, ok2 := dst.(*remoteRegion)
	if src == nil && size == 0 {
		from, ok, srcOff = &region{port: p.port}, true, 0
	}
	if !ok || !ok2 || from.port != p.port {
		return nil, nil, fmt.Errorf("ib: %s: %w: a region of another network or adapter", p.way(), transport.ErrBounds)
	}
	if err := peer.CheckPut(size, srcOff, from.size, dstOff, to.size); err != nil {
		return nil, nil, fmt.Errorf("ib: %s: %w", p.way(), err)
	}
	return from, to, nil
}

// writable reports why n requests cannot be queued. The caller holds mu.
func (p *Peer) writable(n int) error {
	switch err := p.Err(); {
	case err != nil:
		return err
	case !p.connected:
		return fmt.Errorf("ib: %s: not connected: call Connect first", p.port.nic)
	case !p.queue.room(n):
		return fmt.Errorf("ib: %s: %w: %d puts wait: let some complete", p.way(), transport.ErrQueueFull,
			p.queue.waiting.len())
	}
	return nil
}

// pump posts what the adapter has room for. The caller holds mu.
func (p *Peer) pump() {
	if p.Err() != nil {
		return
	}
	for r := p.queue.post(); r != nil; r = p.queue.post() {
		if err := p.qp.Send(&r.work); err != nil {
			p.breakLocked(fmt.Errorf("ib: %s: %w: %w", p.way(), ErrQueuePair, err))
			return
		}
	}
}

// command queues a write without bytes. The caller holds mu.
func (p *Peer) command(opcode int32, imm uint32, done func(error)) {
	p.queue.add(&request{done: done, work: verbs.Work{Opcode: opcode, Imm: imm, Flags: verbs.Signaled,
		Remote: p.remote.Load().scratch, RKey: p.remote.Load().scratchKey}})
	p.pump()
}

// probe asks for an acknowledgement if nothing else does.
func (p *Peer) probe() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.connected && p.Err() == nil && p.queue.posted.len() == 0 {
		p.command(verbs.Write, 0, nil)
	}
}

// fail breaks the Peer. The goroutine hands the error to the puts.
func (p *Peer) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.breakLocked(err)
}

func (p *Peer) breakLocked(err error) {
	if p.Fail(err) {
		_ = p.qp.Fail() // the adapter completes posted requests with an error
		p.wake.interrupt()
	}
}

// Wait waits until n puts with imm have arrived.
func (p *Peer) Wait(ctx context.Context, imm uint32, n uint64) error {
	return p.Arrivals.Wait(ctx, imm, n, p.Failure, nil)
}

// Flush asks the peer's goroutine for an answer, which comes after it has counted every earlier Put: an acknowledgement
// of the adapter alone would come before.
func (p *Peer) Flush(ctx context.Context) error {
	if err := p.Err(); err != nil {
		return err
	}
	p.mu.Lock()
	if p.unasked {
		p.unasked = false
		p.asked++
		p.command(verbs.WriteImmediate, question, nil)
	}
	n := p.asked
	p.mu.Unlock()
	return p.answers.Wait(ctx, 0, n, p.Failure, nil)
}

// goodbyeTime is how long Close waits for the peer's acknowledgement.
const goodbyeTime = time.Second

// Close says goodbye, ends the goroutine and frees this half.
func (p *Peer) Close() error {
	p.closing.Do(func() {
		p.mu.Lock()
		connected := p.connected
		if connected && p.Err() == nil {
			p.command(verbs.WriteImmediate, goodbye, func(error) { close(p.gone) })
			p.mu.Unlock()
			select {
			case <-p.gone:
			case <-p.Failed():
			case <-time.After(goodbyeTime):
			}
			p.mu.Lock()
		}
		p.breakLocked(fmt.Errorf("ib: %s: %w", p.way(), transport.ErrClosed))
		p.mu.Unlock()
		if connected {
			<-p.stopped
		}
		p.port.mu.Lock()
		delete(p.port.peers, p)
		p.port.mu.Unlock()
		p.closeErr = p.free()
	})
	return p.closeErr
}
