package tcp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/transport"
	"github.com/goccl/goccl/transport/peer"
)

// Peer is one half of a connection between two processes. It implements transport.Peer.
//
// # The flow of a put
//
//  1. Put queues it: a small one as one packet on lane 0, which the caller sends if the socket takes it at once; a
//     large one on the list of all lanes.
//  2. The other lanes' writers take pieces of large puts from the list, as fast as their sockets take them.
//  3. The peer's readers write the payloads directly into the region. With the put's last packet, its immediate counts.
//  4. Each lane numbers its packets, keeps them until the peer has acknowledged them, and sends the rest again after a
//     reconnection. A packet that was cut is repeated as a whole; no packet is applied twice.
//  5. When all packets of a put are acknowledged, done is called.
//
// Locks: a lane's mu is taken before bulk.mu. Neither is held during a wait or a callback.
type Peer struct {
	port    *Port
	cred    Credential      // with which the other half connects to this one
	ctx     context.Context // ends with the Peer
	cancel  context.CancelFunc
	pending peer.Pending // puts that are not acknowledged
	peer.Arrivals
	*peer.Failure // the first error; once it is set, no lane has a connection

	mu      sync.Mutex     // guards the fields below
	remote  *address       // of the other half; nil until Connect
	from    uint64         // the endpoint of the other half, from its first connection or from Connect; 0: unknown
	closing bool           // Close was called: no goroutine is added to wg
	refused uint8          // the status with which a packet of the other half was refused
	probing bool           // a goroutine asks the listener of the other half whether it is alive
	missing int            // lanes in use that never had a connection; ready is closed when it becomes 0
	wg      sync.WaitGroup // goroutines that Close waits for

	all   []*lane       // one more than NetOptions.Sockets
	count atomic.Int32  // lanes in use: all[:count]; it changes at most once, before Connect returns
	ready chan struct{} // closed when every lane in use has had a connection

	bulk  bulkList      // large puts whose packets lanes take
	turn  atomic.Uint32 // of the lanes that large puts wake
	next  atomic.Uint64 // number of the last put
	parts partials      // large puts of the other half that have arrived in part
}

func newPeer(p *Port) *Peer {
	o := &Peer{port: p, Failure: peer.NewFailure(), ready: make(chan struct{})}
	o.ctx, o.cancel = context.WithCancel(context.Background())
	for i := range 1 + p.opt.Sockets {
		o.all = append(o.all, &lane{peer: o, index: i, kick: make(chan struct{}, 1)})
	}
	o.missing = len(o.all)
	o.count.Store(int32(len(o.all)))
	return o
}

// lanes are those in use. Their number changes at most once, before Connect returns.
func (p *Peer) lanes() []*lane { return p.all[:p.count.Load()] }

// Address encodes where this half listens, its secret and its wishes.
func (p *Peer) Address() []byte {
	a := address{at: p.port.listener.addr, cred: p.cred, sockets: 1 + p.port.opt.Sockets, encrypt: p.port.opt.Encrypt}
	return a.encode()
}

// Connect joins the halves. The one with the smaller endpoint dials all lanes, now and after a loss; the other waits.
func (p *Peer) Connect(ctx context.Context, remote []byte) error {
	a, err := parseAddress(remote)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.port.opt.Timeout)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	if a.cred.Endpoint == p.cred.Endpoint {
		return errors.New("tcp: connect: the address is this half's own: give it the other half's")
	}
	if err := p.meet(&a); err != nil {
		return err
	}
	if p.dials() {
		err = p.dialAll(ctx)
	} else {
		select {
		case <-p.ready:
		case <-p.Failed():
			err = p.Err()
		case <-ctx.Done():
			err = fmt.Errorf("%w: %v did not connect to %v: is a firewall between them?", context.Cause(ctx), a.at,
				p.port.listener.addr)
		}
	}
	if err != nil {
		err = fmt.Errorf("tcp: connect to %v from %v (NCCL_SOCKET_IFNAME chooses interfaces): %w", a.at,
			p.port.listener.addr.Addr(), err)
		p.fail(err)
	}
	return err
}

// meet records the other half and agrees on the number of lanes: the smaller one.
func (p *Peer) meet(a *address) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closing:
		return transport.ErrClosed
	case p.remote != nil:
		return errors.New("tcp: connect: this half is connected already: make another with NewPeer")
	case p.from != 0 && p.from != a.cred.Endpoint:
		return fmt.Errorf("%w: a half with another address has connected", ErrAuth)
	}
	p.remote, p.from = a, a.cred.Endpoint
	p.keep(a.sockets)
	return nil
}

// keep drops the lanes beyond the first n, which never had a connection. The caller holds mu.
func (p *Peer) keep(n int) {
	if have := int(p.count.Load()); n < have {
		p.count.Store(int32(n))
		if p.missing -= have - n; p.missing == 0 {
			close(p.ready)
		}
	}
}

// dials reports whether this half makes the connections.
func (p *Peer) dials() bool { return p.cred.Endpoint < p.remote.cred.Endpoint }

// encrypted is known once the halves have met; the dialler tells the other half with each connection.
func (p *Peer) encrypted() bool { return p.port.opt.Encrypt || p.remote.encrypt }

func (p *Peer) dialAll(ctx context.Context) error {
	lanes := p.lanes()
	errs := make([]error, len(lanes))
	var all sync.WaitGroup
	for i, l := range lanes {
		all.Go(func() { errs[i] = p.dial(ctx, l) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Import decodes a region's key.
func (p *Peer) Import(key []byte) (transport.RemoteRegion, error) {
	return peer.ParseKey("tcp", kindRegion, key)
}

// put is a put that has begun.
type put struct {
	left  atomic.Int32 // packets that are not acknowledged
	ended atomic.Bool
	epoch uint64
	done  func(error)
}

// end is called when the put has arrived (nil) or the Peer has failed; the first call counts.
func (p *Peer) end(q *put, err error) {
	if q.ended.Swap(true) {
		return
	}
	if q.done != nil {
		q.done(err)
	}
	p.pending.End(q.epoch)
}

// smallPut is the size up to which a put is one packet, sent by the caller.
const smallPut = 64 << 10

// Put queues the put, and sends it if it is small and the socket is ready.
func (p *Peer) Put(src transport.Region, srcOff int64, dst transport.RemoteRegion, dstOff int64, size int64, imm uint32,
	done func(error)) error {
	if err := peer.CheckImmediate(imm); err != nil {
		return err
	}
	to, ok := dst.(*peer.RemoteRegion)
	from, ok2 := src.(*netRegion)
	if !ok || !ok2 && size != 0 {
		return fmt.Errorf("tcp: put: %w: from %T to %T, which are not both regions of this network", transport.ErrBounds,
			src, dst)
	}
	var room int64
	if from != nil {
		room = int64(len(from.mem))
	}
	if err := peer.CheckPut(size, srcOff, room, dstOff, to.Size()); err != nil {
		return fmt.Errorf("tcp: put: %w", err)
	}
	if err := p.Err(); err != nil {
		return err
	}
	q := &put{done: done, epoch: p.pending.Begin()}
	f := frame{put: q, src: from, srcOff: srcOff, packet: packet{kind: packetPut, imm: uint16(imm),
		length: uint32(min(size, maxPiece)), region: to.ID, offset: uint64(dstOff), value: p.next.Add(1), parts: 1}}
	var err error
	if done != nil {
		f.status = 1
	}
	if size > smallPut {
		err = p.stripe(f, size)
	} else {
		q.left.Store(1)
		err = p.all[0].send(f)
	}
	if err != nil {
		p.pending.End(q.epoch)
	}
	return err
}

// Hold and Release implement transport.Batcher.
func (p *Peer) Hold()    { p.all[0].hold() }
func (p *Peer) Release() { p.all[0].release() }

// Wait waits for n arrivals with imm.
func (p *Peer) Wait(ctx context.Context, imm uint32, n uint64) error {
	poller := p.port.poller
	poller.waiters.Add(1)
	defer poller.waiters.Add(-1)
	return p.Arrivals.Wait(ctx, imm, n, p.Failure, poller.try)
}

// Flush waits for the acknowledgements of all puts so far. It asks for them, because the peer may delay them.
func (p *Peer) Flush(ctx context.Context) error {
	return p.pending.Flush(ctx, p.Failure, func() {
		for _, l := range p.lanes() {
			l.urge()
		}
	})
}

// fail breaks the Peer: its connections end, its puts end with err, and its waiters return.
func (p *Peer) fail(err error) { p.stop(err, false) }

// stop is fail. With gently, what was sent last still arrives.
func (p *Peer) stop(err error, gently bool) {
	if !p.Fail(err) {
		return
	}
	p.cancel()
	for _, l := range p.all {
		l.drain(err, gently)
	}
	p.bulk.drain(p, err)
}

// byeTime bounds how long Close waits for a socket to take the goodbye, and then for the other half to close.
const byeTime = time.Second

// Close says goodbye on every lane. The other half answers by closing its own end.
func (p *Peer) Close() error {
	p.mu.Lock()
	first := !p.closing
	p.closing = true
	p.mu.Unlock()
	if first {
		p.port.listener.removeEndpoint(p.cred.Endpoint)
		end := time.Now().Add(byeTime)
		for _, l := range p.lanes() {
			l.bye(end)
		}
		p.stop(transport.ErrClosed, true)
		p.port.dropPeer(p)
	}
	p.wg.Wait()
	for _, l := range p.all {
		l.join()
	}
	return nil
}
