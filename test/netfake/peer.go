package netfake

import (
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/peer"
)

// Peer is one half of a connection. It implements transport.Peer.
type Peer struct {
	port    *Port
	id      uint64
	failure *peer.Failure
	pending peer.Pending
	peer.Arrivals
	ready chan struct{} // closed when both halves are connected

	other  *Peer // guarded by the fabric's mu, like the fields below
	wanted uint64
	rng    *rand.Rand
	seq    uint64
}

// NewPeer makes a half.
func (p *Port) NewPeer() (transport.Peer, error) {
	f := p.net.fabric
	p.mu.Lock()
	defer p.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case p.closed, f.closed:
		return nil, transport.ErrClosed
	case p.net.dead:
		return nil, errDead
	}
	f.next++
	q := &Peer{port: p, id: f.next, failure: peer.NewFailure(), ready: make(chan struct{}),
		rng: f.source(fmt.Sprint(p.net.host, p.number, len(p.peers)))}
	f.halves[q.id] = q
	p.peers = append(p.peers, q)
	return q, nil
}

// Address names the half.
func (p *Peer) Address() []byte { return binary.LittleEndian.AppendUint64([]byte("fake"), p.id) }

// Connect waits until both halves want each other.
func (p *Peer) Connect(ctx context.Context, remote []byte) error {
	if len(remote) != 12 || string(remote[:4]) != "fake" {
		return errors.New("netfake: this is no address of a peer")
	}
	f := p.port.net.fabric
	f.mu.Lock()
	p.wanted = binary.LittleEndian.Uint64(remote[4:])
	if o := f.halves[p.wanted]; o != nil && o.wanted == p.id && o != p && p.other == nil {
		p.other, o.other = o, p
		close(p.ready)
		close(o.ready)
	}
	f.mu.Unlock()
	select {
	case <-p.ready:
		return p.failure.Err()
	case <-p.failure.Failed():
		return p.failure.Err()
	case <-ctx.Done():
		return fmt.Errorf("netfake: connect: %w", context.Cause(ctx))
	}
}

// put is a put that has begun.
type put struct {
	from         *Peer
	src          *region
	srcOff       int64
	dst          uint64
	dstOff, size int64
	imm          uint32
	epoch        uint64
	done         func(error)
	ended        bool // of the goroutine that takes the steps
}

// Put schedules the steps of the put: garbage, pieces, all bytes, the arrival, done.
func (p *Peer) Put(src transport.Region, srcOff int64, dst transport.RemoteRegion, dstOff, size int64, imm uint32,
	done func(error)) error {
	if err := peer.CheckImmediate(imm); err != nil {
		return err
	}
	to, ok := dst.(*remoteRegion)
	if !ok || size < 0 || dstOff < 0 || dstOff > to.size-size {
		return fmt.Errorf("netfake: put: %w: %d bytes at offset %d of the destination", transport.ErrBounds, size, dstOff)
	}
	from, ok := src.(*region)
	if size > 0 && (!ok || srcOff < 0 || srcOff > from.size-size) {
		return fmt.Errorf("netfake: put: %w: %d bytes at offset %d of the source", transport.ErrBounds, size, srcOff)
	}
	if err := p.failure.Err(); err != nil {
		return err
	}
	q := &put{p, from, srcOff, to.id, dstOff, size, imm, p.pending.Begin(), done, false}
	f := p.port.net.fabric
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.other == nil || f.closed {
		p.pending.End(q.epoch)
		return fmt.Errorf("netfake: put: %w: not connected", transport.ErrClosed)
	}
	at := f.now
	next := func(do func()) {
		at += 1 + uint64(p.rng.IntN(f.opt.Delay))*max(p.port.net.slow, p.other.port.net.slow)
		p.seq++
		heap.Push(&f.steps, step{at, p.id, p.seq, do})
	}
	if size > 0 {
		junk := byte(p.rng.Uint32())
		next(func() { q.write(0, size/2, &junk) })
		cut := p.rng.Int64N(size + 1)
		next(func() { q.write(cut, size-cut, nil) })
		if p.rng.Float64() < f.opt.Repeat {
			next(func() { q.write(0, size, nil) })
			next(func() { q.write(size/2, size-size/2, &junk) })
		}
	}
	next(q.arrive)
	next(func() { q.end(nil) })
	f.wake.Signal()
	return nil
}

// write moves n bytes at off of the put, or garbage.
func (q *put) write(off, n int64, junk *byte) (ok bool) {
	if q.from.failure.Err() != nil {
		return false
	}
	dst := q.from.region(q.dst)
	if dst != nil {
		ok = dst.access(q.dstOff+off, n, func(to []byte) {
			if junk != nil {
				for i := range to {
					to[i] = *junk
				}
				ok = true
				return
			}
			if q.src == dst { // its lock is held
				ok = copy(to, dst.mem[q.srcOff+off:q.srcOff+off+n]) == int(n)
				return
			}
			ok = q.src.access(q.srcOff+off, n, func(from []byte) { copy(to, from) })
		}) && ok
	}
	if !ok {
		q.from.lost(fmt.Errorf("%w: netfake: a region of a put was closed", transport.ErrBounds))
	}
	return ok
}

func (q *put) arrive() {
	if q.from.failure.Err() != nil || q.size > 0 && !q.write(0, q.size, nil) {
		q.end(q.from.failure.Err())
		return
	}
	q.from.other.Arrive(q.imm)
	q.from.port.net.fabric.arrived()
}

func (q *put) end(err error) {
	if q.ended {
		return
	}
	q.ended = true
	if err == nil {
		err = q.from.failure.Err()
	}
	if q.done != nil {
		q.done(err)
	}
	q.from.pending.End(q.epoch)
}

// Wait waits for n arrivals with imm.
func (p *Peer) Wait(ctx context.Context, imm uint32, n uint64) error {
	return p.Arrivals.Wait(ctx, imm, n, p.failure, nil)
}

// Flush waits for the arrival of all puts so far.
func (p *Peer) Flush(ctx context.Context) error { return p.pending.Flush(ctx, p.failure, func() {}) }

// Failed and Err tell of the failure.
func (p *Peer) Failed() <-chan struct{} { return p.failure.Failed() }
func (p *Peer) Err() error              { return p.failure.Err() }

func (p *Peer) fail(err error) { p.failure.Fail(err) }

// lost fails both halves.
func (p *Peer) lost(err error) {
	f := p.port.net.fabric
	f.mu.Lock()
	o := p.other
	f.mu.Unlock()
	p.fail(err)
	if o != nil {
		o.fail(err)
	}
}

// Close says goodbye.
func (p *Peer) Close() error {
	f := p.port.net.fabric
	f.mu.Lock()
	o := p.other
	delete(f.halves, p.id)
	f.mu.Unlock()
	p.fail(transport.ErrClosed)
	if o != nil {
		o.fail(fmt.Errorf("%w: netfake: %s", transport.ErrPeerClosed, p.port.net.host))
	}
	return nil
}
