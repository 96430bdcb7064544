package perf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/hostreduce"
)

// fakeDevice is a device with memory and one stream that runs work in the caller.
type fakeDevice struct{ kind device.Kind }

type fakeAllocation struct{ b []byte }

func (a *fakeAllocation) Ptr() device.Ptr { return device.Ptr(uintptr(unsafe.Pointer(&a.b[0]))) }
func (a *fakeAllocation) Size() int64     { return int64(len(a.b)) }
func (a *fakeAllocation) Close() error    { return nil }

func (d *fakeDevice) ID() device.ID { return device.ID{Kind: d.kind} }
func (d *fakeDevice) Name() string  { return "fake H200" }
func (d *fakeDevice) Alloc(size int64) (device.Allocation, error) {
	a := &fakeAllocation{b: make([]byte, size)}
	live.Store(a, true) // memory that is referenced only by address must stay reachable
	return a, nil
}
func (d *fakeDevice) Export(device.Ptr) (device.Handle, error) {
	return device.Handle{}, device.ErrUnsupported
}
func (d *fakeDevice) Import(device.Handle) (device.Allocation, error) {
	return nil, device.ErrUnsupported
}
func (d *fakeDevice) Reserve(int64) (device.Reservation, error) { return nil, device.ErrUnsupported }
func (d *fakeDevice) NewStream() (device.Stream, error)         { return &fakeStream{d: d}, nil }
func (d *fakeDevice) WrapStream(uintptr) (device.Stream, error) { return &fakeStream{d: d}, nil }
func (d *fakeDevice) CopyIn(dst device.Ptr, src []byte) error {
	copy(device.Bytes(dst, int64(len(src))), src)
	return nil
}
func (d *fakeDevice) CopyOut(dst []byte, src device.Ptr) error {
	copy(dst, device.Bytes(src, int64(len(dst))))
	return nil
}
func (d *fakeDevice) Close() error { return nil }

var live sync.Map

type fakeStream struct{ d *fakeDevice }

func (s *fakeStream) Device() device.Device                    { return s.d }
func (s *fakeStream) Raw() uintptr                             { return 0 }
func (s *fakeStream) Copy(device.Ptr, device.Ptr, int64) error { return device.ErrUnsupported }
func (s *fakeStream) Memset(device.Ptr, byte, int64) error     { return device.ErrUnsupported }
func (s *fakeStream) Record() (device.Event, error)            { return fakeEvent(time.Now()), nil }
func (s *fakeStream) WaitEvent(device.Event) error             { return device.ErrUnsupported }
func (s *fakeStream) Synchronize(ctx context.Context) error    { return context.Cause(ctx) }
func (s *fakeStream) Close() error                             { return nil }

// fakeEvent is the time at which it was recorded, since the stream runs work in the caller.
type fakeEvent time.Time

func (fakeEvent) Wait(context.Context) error { return nil }
func (fakeEvent) Close() error               { return nil }
func (e fakeEvent) Since(start device.Event) (float64, error) {
	return time.Time(e).Sub(time.Time(start.(fakeEvent))).Seconds(), nil
}

// fakeCapturer's graphs run the captured operations; capturing runs nothing.
type fakeCapturer struct{ replays *atomic.Int64 }

type fakeGraph struct {
	enqueue func() error
	replays *atomic.Int64
}

func (c fakeCapturer) Capture(_ device.Stream, enqueue func() error) (Graph, error) {
	return fakeGraph{enqueue, c.replays}, nil
}

func (g fakeGraph) Launch(device.Stream) error {
	g.replays.Add(1)
	return g.enqueue()
}

func (g fakeGraph) Close() error { return nil }

// exchange lets n goroutines swap byte slices round by round.
type exchange struct {
	mu    sync.Mutex
	n     int
	round map[int]*round
}

type round struct {
	data [][]byte
	got  int
	done chan struct{}
}

func newExchange(n int) *exchange { return &exchange{n: n, round: map[int]*round{}} }

type fakePeers struct {
	x    *exchange
	rank int
	next int
}

func (p *fakePeers) Rank() int      { return p.rank }
func (p *fakePeers) WorldSize() int { return p.x.n }
func (p *fakePeers) Barrier(ctx context.Context) error {
	_, err := p.AllGather(ctx, nil)
	return err
}
func (p *fakePeers) AllGather(ctx context.Context, data []byte) ([][]byte, error) {
	p.x.mu.Lock()
	r := p.x.round[p.next]
	if r == nil {
		r = &round{data: make([][]byte, p.x.n), done: make(chan struct{})}
		p.x.round[p.next] = r
	}
	p.next++
	r.data[p.rank] = append([]byte(nil), data...)
	if r.got++; r.got == p.x.n {
		close(r.done)
	}
	p.x.mu.Unlock()
	select {
	case <-r.done:
		return r.data, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// fakeLibrary implements collectives directly from their definition, over its own exchange. spoil, if any, changes the
// outputs of a rank.
type fakeLibrary struct {
	name  string
	x     *exchange
	spoil func(rank int, r *collective.Request, out []byte)
	fail  error
}

func (l *fakeLibrary) Name() string    { return l.name }
func (l *fakeLibrary) Version() string { return "0" }
func (l *fakeLibrary) Open(ctx context.Context, p Peers, _ device.Device) (Communicator, error) {
	return &fakeCommunicator{ctx: ctx, lib: l, peers: fakePeers{x: l.x, rank: p.Rank()}}, nil
}

type fakeCommunicator struct {
	ctx   context.Context // unblocks waits for a failed rank
	lib   *fakeLibrary
	peers fakePeers
}

func (c *fakeCommunicator) Close() error { return nil }

func (c *fakeCommunicator) Synchronize(ctx context.Context, s device.Stream) error {
	return s.Synchronize(ctx)
}

func (c *fakeCommunicator) Submit(rs ...collective.Request) error {
	if c.lib.fail != nil && c.peers.rank == 1 {
		return c.lib.fail
	}
	n, me := c.peers.x.n, c.peers.rank
	send, recv := rs[0], rs[len(rs)-1]
	k, t := send.Collective, send.Type
	ts := t.Size()
	mine := send.Count * ts
	if k == collective.ReduceScatter || k == collective.AllToAll || k == collective.Scatter {
		mine *= int64(n)
	}
	if k == collective.AllToAllV || k == collective.AllToAllVDevice {
		mine = (send.SendDispls[n-1] + send.SendCounts[n-1]) * ts
	}
	if (k == collective.Broadcast || k == collective.Scatter) && me != send.Root {
		mine = 0
	}
	all, err := c.peers.AllGather(c.ctx, device.Bytes(send.Send, mine))
	if err != nil {
		return err
	}
	block := send.Count * ts
	part := func(b []byte, i int) []byte { return b[int64(i)*block : int64(i+1)*block] }
	var out []byte
	reduced := func() []byte {
		acc := make([]byte, len(all[0]))
		if err := hostreduce.Reduce(acc, all, t, send.Op, send.Scalar, n); err != nil {
			panic(err)
		}
		return acc
	}
	switch k {
	case collective.AllReduce:
		out = reduced()
	case collective.Reduce:
		if me == send.Root {
			out = reduced()
		}
	case collective.ReduceScatter:
		out = part(reduced(), me)
	case collective.Broadcast:
		out = all[send.Root]
	case collective.Scatter:
		out = part(all[send.Root], me)
	case collective.Send:
		out = all[recv.Peer]
	case collective.AllGather, collective.Gather:
		if k == collective.AllGather || me == send.Root {
			for r := range all {
				out = append(out, all[r]...)
			}
		}
	case collective.AllToAll:
		for r := range all {
			out = append(out, part(all[r], me)...)
		}
	case collective.AllToAllV, collective.AllToAllVDevice:
		for r := range all {
			var at int64
			for to := range me {
				at += (&geometry{kind: Kind{Collective: k}, n: n, count: vMean(n, &send)}).pair(r, to)
			}
			if send.RecvCounts[r] > 0 {
				out = append(out, all[r][at*ts:(at+send.RecvCounts[r])*ts]...)
			}
		}
	default:
		return fmt.Errorf("fake library: no %v", k)
	}
	if c.lib.spoil != nil {
		out = bytes.Clone(out) // ranks may share it
		c.lib.spoil(me, &recv, out)
	}
	copy(device.Bytes(recv.Recv, int64(len(out))), out)
	return nil
}

// vMean recovers the mean count per pair from a rank's send counts.
func vMean(n int, r *collective.Request) int64 {
	var sum int64
	for _, c := range r.SendCounts {
		sum += c
	}
	return sum / int64(n)
}

// measureFake runs Measure on n goroutines, timed by the clock.
func measureFake(t *testing.T, n int, cfg Config, limits Limits, reporter Reporter, libs ...*fakeLibrary) ([]Row,
	error) {
	t.Helper()
	return measureFakeOn(t, Rank{Device: &fakeDevice{kind: device.Host}, Limits: limits, Reporter: reporter}, n, cfg,
		libs...)
}

// measureFakeOn runs Measure on n goroutines that have base's device and capturer; the reporter is rank 0's.
func measureFakeOn(t *testing.T, base Rank, n int, cfg Config, libs ...*fakeLibrary) ([]Row, error) {
	t.Helper()
	x := newExchange(n)
	for _, l := range libs {
		l.x = newExchange(n)
	}
	rows := make([][]Row, n)
	errs := make([]error, n)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			cfg := cfg
			cfg.Seed = uint64(r) // the ranks must agree on one
			rank := base
			rank.Peers = &fakePeers{x: x, rank: r}
			rank.Stream, _ = base.Device.NewStream()
			for _, l := range libs {
				rank.Libraries = append(rank.Libraries, l)
			}
			if r != 0 {
				rank.Reporter = nil
			}
			if rows[r], errs[r] = Measure(ctx, cfg, rank); errs[r] != nil {
				cancel()
			}
		})
	}
	wg.Wait()
	return rows[0], errors.Join(errs...)
}
