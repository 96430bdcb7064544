package primitive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/testutil"
)

// rank is one rank of a job in this process.
type rank struct {
	comm    *Communicator
	dev     device.Device
	service *ProxyService
}

// job runs f for each of n ranks at the same time.
func job(t *testing.T, n int, f func(r *rank) error, opts ...ContextOption) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i, bs := range bootstrap.NewLocalGroup(n) {
		r := &rank{dev: open(t, i)}
		wg.Go(func() {
			defer func() { errs[i] = errors.Join(errs[i], bs.Close()) }()
			ctx := NewContext(append([]ContextOption{WithTimeout(10 * time.Second), WithSpinLimit(10 * time.Second)}, opts...)...)
			defer func() { errs[i] = errors.Join(errs[i], ctx.Close()) }()
			r.comm = NewCommunicator(bs, ctx)
			defer func() { errs[i] = errors.Join(errs[i], r.comm.Close()) }()
			if errs[i] = f(r); errs[i] == nil {
				errs[i] = bs.Barrier(context.Background())
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
}

// mesh makes a port channel from each rank to each, itself included, over one buffer of n slices.
func mesh(r *rank, transport Transport, size int64) ([]PortChannelHandle, []byte, error) {
	n := r.comm.WorldSize()
	a, err := r.dev.Alloc(size)
	if err != nil {
		return nil, nil, err
	}
	ctx := r.comm.Context()
	mem, err := ctx.RegisterMemory(r.dev, a.Ptr(), size, Flags(IPC, Ethernet))
	if err != nil {
		return nil, nil, err
	}
	if r.service, err = NewProxyService(ctx, r.dev, ProxyOptions{}); err != nil {
		return nil, nil, err
	}
	conns := make([]*Future[*Connection], n)
	remotes := make([]*Future[*RegisteredMemory], n)
	for p := range n {
		conns[p] = r.comm.ConnectOnSetup(p, 0, EndpointConfig{Transport: transport, Device: r.dev})
		r.comm.SendMemoryOnSetup(mem, p, 0)
		remotes[p] = r.comm.RecvMemoryOnSetup(p, 0)
	}
	bg := context.Background()
	if err := r.comm.Setup(bg); err != nil {
		return nil, nil, err
	}
	src, err := r.service.AddMemory(mem)
	if err != nil {
		return nil, nil, err
	}
	ids := make([]SemaphoreID, n)
	for p := range n {
		c, _ := conns[p].Get(bg)
		if ids[p], err = r.service.BuildAndAddSemaphore(r.comm, c); err != nil {
			return nil, nil, err
		}
	}
	var handles []PortChannelHandle
	for p := range n {
		m, _ := remotes[p].Get(bg)
		dst, err := r.service.AddMemory(m)
		if err != nil {
			return nil, nil, err
		}
		c, err := r.service.PortChannel(ids[p], dst, src)
		if err != nil {
			return nil, nil, err
		}
		handles = append(handles, c.DeviceHandle())
	}
	return handles, device.Bytes(a.Ptr(), size), r.service.Start()
}

func TestPortChannelMesh(t *testing.T) {
	for _, transport := range []Transport{IPC, Ethernet} {
		t.Run(transport.String(), func(t *testing.T) {
			const n, slice = 4, 70001
			job(t, n, func(r *rank) error {
				handles, buf, err := mesh(r, transport, n*slice)
				if err != nil {
					return err
				}
				for round := range 5 {
					me := uint64(r.comm.Rank())
					fill(buf[me*slice:(me+1)*slice], round*10+int(me))
					for p := range handles {
						if s := handles[p].PutWithSignalAndFlush(me*slice, me*slice, slice); s != StatusOK {
							return fmt.Errorf("put to %d: %v: %w", p, s, r.comm.Context().Err())
						}
					}
					for p := range handles {
						if s := handles[p].Wait(); s != StatusOK {
							return fmt.Errorf("wait for %d: %v: %w", p, s, r.comm.Context().Err())
						}
					}
					want := make([]byte, slice)
					for p := range handles {
						fill(want, round*10+p)
						if !bytes.Equal(buf[p*slice:(p+1)*slice], want) {
							return fmt.Errorf("round %d: wrong slice of rank %d", round, p)
						}
					}
					if err := r.comm.Bootstrap().Barrier(context.Background()); err != nil {
						return err
					}
				}
				return r.service.Stop()
			})
		})
	}
}

// Many channels of several services, a FIFO that is often full, many pushing threads: nothing is lost and each channel keeps its order.
func TestHundredsOfChannelsAndSeveralServices(t *testing.T) {
	const channels, services, puts = 300, 3, 20
	ctx := newContext(t)
	x, y := pair(t, IPC, ctx, ctx)
	src, in := x.memory(t, channels*8*puts, Flags(IPC))
	dst, out := y.memory(t, channels*8*puts, Flags(IPC))
	fill(in, 3)
	remote := x.receive(t, dst)
	var handles []PortChannelHandle
	var waits []SemaphoreHandle
	for s := range services {
		service := must[*ProxyService](t)(NewProxyService(ctx, x.dev, ProxyOptions{FifoSize: 8}))
		to, from := must[MemoryID](t)(service.AddMemory(remote)), must[MemoryID](t)(service.AddMemory(src))
		for i := s; i < channels; i += services {
			a, b := must[*SemaphoreStub](t)(NewSemaphoreStub(x.conn)), must[*SemaphoreStub](t)(NewSemaphoreStub(y.conn))
			id := must[SemaphoreID](t)(service.AddSemaphore(must[*Semaphore](t)(NewSemaphore(a, b))))
			handles = append(handles, must[*PortChannel](t)(service.PortChannel(id, to, from)).DeviceHandle())
			waits = append(waits, must[*Semaphore](t)(NewSemaphore(b, a)).DeviceHandle())
		}
		if err := service.Start(); err != nil {
			t.Fatal(err)
		}
	}
	var wg sync.WaitGroup
	for i := range handles {
		wg.Go(func() {
			for k := range uint64(puts) {
				off := (uint64(i)*puts + k) * 8
				if s := handles[i].PutWithSignal(off, off, 8); s != StatusOK {
					t.Errorf("channel %d: %v", i, s)
					return
				}
			}
		})
	}
	for i := range waits {
		for range puts {
			if s := waits[i].Wait(); s != StatusOK {
				t.Fatalf("channel %d: %v: %v", i, s, ctx.Err())
			}
		}
	}
	wg.Wait()
	if !bytes.Equal(in, out) {
		t.Fatal("wrong data")
	}
}

func TestABadTriggerAbortsAndNamesTheReason(t *testing.T) {
	ctx := newContext(t)
	x, y := pair(t, IPC, ctx, ctx)
	src, _ := x.memory(t, 4096, Flags(IPC))
	dst, out := y.memory(t, 4096, Flags(IPC))
	service := must[*ProxyService](t)(NewProxyService(ctx, x.dev, ProxyOptions{}))
	to, from := must[MemoryID](t)(service.AddMemory(x.receive(t, dst))), must[MemoryID](t)(service.AddMemory(src))
	id := must[SemaphoreID](t)(service.AddSemaphore(x.sema))
	h := must[*PortChannel](t)(service.PortChannel(id, to, from)).DeviceHandle()
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	if s := h.PutWithSignalAndFlush(4000, 0, 97); s != StatusAborted {
		t.Fatalf("a put past the end: %v", s)
	}
	var e *Error
	if err := ctx.Err(); !errors.Is(err, ErrInvalid) || !errors.As(err, &e) || e.Peer != 1 {
		t.Fatal(err)
	}
	if !bytes.Equal(out, make([]byte, len(out))) {
		t.Fatal("something was written")
	}
	if err := service.Stop(); !errors.Is(err, ErrInvalid) {
		t.Fatal(err)
	}
	ctx.Recover()
	if s := h.Put(1<<48, 0, 1); s != StatusInvalid {
		t.Fatalf("an offset beyond the encoding: %v", s)
	}
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	if s := h.PutWithSignalAndFlush(0, 0, 96); s != StatusOK {
		t.Fatalf("after Recover: %v %v", s, ctx.Err())
	}
}

func TestCustomProxyHandler(t *testing.T) {
	ctx := newContext(t)
	dev := open(t, 0)
	var got []Trigger
	p := must[*Proxy](t)(NewProxy(ctx, dev, func(t Trigger, pos uint64) error {
		if pos != uint64(len(got)) {
			return fmt.Errorf("position %d, want %d", pos, len(got))
		}
		got = append(got, t)
		return nil
	}, ProxyOptions{FifoSize: 3}))
	if p.Fifo().Size() != 4 {
		t.Fatal(p.Fifo().Size())
	}
	h := p.Fifo().DeviceHandle()
	// Pushed before Start and carried out by it; Stop drains.
	for i := range 4 {
		if pos, s := h.Push(Trigger{Type: 1 << 7, Size: uint64(i)}); s != StatusOK || h.Poll(pos) {
			t.Fatal(pos, s)
		}
	}
	for range 3 {
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		pos, s := h.Push(Trigger{Type: 1 << 7, Size: 99})
		if s != StatusOK {
			t.Fatal(s)
		}
		if err := p.Stop(); err != nil {
			t.Fatal(err)
		}
		if s := h.Sync(pos); s != StatusOK {
			t.Fatal(s)
		}
	}
	if len(got) != 7 || got[2].Size != 2 || got[6].Type != 1<<7 {
		t.Fatalf("%+v", got)
	}
}

func cpuTime(t *testing.T) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestAnIdleProxyBurnsNoCore(t *testing.T) {
	ctx := newContext(t)
	dev := open(t, 0)
	s := must[*ProxyService](t)(NewProxyService(ctx, dev, ProxyOptions{}))
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	// A collector at work, left by another test, is not the proxy's doing.
	testutil.Prompt(t, 60*time.Millisecond, func() time.Duration {
		before := cpuTime(t)
		time.Sleep(300 * time.Millisecond)
		return cpuTime(t) - before
	})
}

func TestSwitchChannel(t *testing.T) {
	const n, count = 3, 1000
	job(t, n, func(r *rank) error {
		a, err := r.dev.Alloc(count * 4)
		if err != nil {
			return err
		}
		mem, err := r.comm.Context().RegisterMemory(r.dev, a.Ptr(), count*4, Flags(IPC))
		if err != nil {
			return err
		}
		bg := context.Background()
		sw, err := NewSwitchChannel(bg, r.comm, r.dev, mem, 0)
		if err != nil {
			return err
		}
		h := sw.DeviceHandle()
		me := MemoryChannelHandle{Dst: a.Ptr()}
		for i := range int64(count) {
			Write(&me, i, float32(int(i)*(r.comm.Rank()+1)))
		}
		barrier := func() error { return r.comm.Bootstrap().Barrier(bg) }
		if err := barrier(); err != nil {
			return err
		}
		out, err := r.dev.Alloc(count * 4)
		if err != nil {
			return err
		}
		lo, hi := part(count, r.comm.Rank(), n)
		for tid := range 2 {
			if err := h.Reduce(out.Ptr(), lo, hi-lo, datatype.Float32, datatype.Sum, tid, 2); err != nil {
				return err
			}
		}
		if got := ReduceElement[float32](&h, lo); got != float32(lo*6) {
			return fmt.Errorf("element: %v", got)
		}
		if err := barrier(); err != nil {
			return err
		}
		if err := h.Broadcast(lo*4, out.Ptr(), (hi-lo)*4, 0, 1); err != nil {
			return err
		}
		if err := barrier(); err != nil {
			return err
		}
		for i := range int64(count) {
			if got := Read[float32](&me, i); got != float32(i*6) {
				return fmt.Errorf("element %d is %v, want %v", i, got, i*6)
			}
		}
		if err := h.Broadcast(count*4-3, out.Ptr(), 4, 0, 1); !errors.Is(err, ErrInvalid) {
			return fmt.Errorf("broadcast past the end: %v", err)
		}
		return nil
	})
}

func TestAKilledRankEndsWaitsWithItsName(t *testing.T) {
	group := bootstrap.NewLocal(3)
	ctx := newContext(t)
	comm := NewCommunicator(group.Ranks[0], ctx)
	defer comm.Close()
	dev := open(t, 0)
	// Waits of three sorts: a future whose peer never comes, a kernel, a host semaphore.
	f := comm.Connect(EndpointConfig{Transport: IPC, Device: dev}, 2, 0)
	x, _ := pair(t, IPC, ctx, ctx)
	h := x.sema.DeviceHandle()
	host := must[*Host2HostSemaphore](t)(NewHost2HostSemaphore(must[*Semaphore](t)(func() (*Semaphore, error) {
		s := must[*SemaphoreStub](t)(NewSemaphoreStub(x.conn))
		return NewSemaphore(s, s)
	}())))
	kernel, wait := make(chan Status, 1), make(chan error, 1)
	go func() { kernel <- h.Wait() }()
	go func() { wait <- host.Wait(context.Background()) }()
	waiting(t, ctx, 2)
	start := time.Now()
	group.Kill(2)
	if _, err := f.Get(context.Background()); !errors.Is(err, ErrPeerDead) {
		t.Error("future:", err)
	}
	if s := <-kernel; s != StatusPeerDead {
		t.Error("kernel:", s)
	}
	var e *Error
	if err := <-wait; !errors.Is(err, ErrPeerDead) || !errors.As(err, &e) || e.Peer != 2 {
		t.Error("host:", err)
	}
	if d := time.Since(start); d > 4*time.Second { // the Context's timeout is five; TestKilledProcessIsNamedWithinASecond asks for more
		t.Errorf("it took %v", d)
	}
}

func TestFuturesCompleteInAnyOrderAndKindsDoNotMix(t *testing.T) {
	job(t, 2, func(r *rank) error {
		bg := context.Background()
		other := 1 - r.comm.Rank()
		ctx := r.comm.Context()
		a, err := r.dev.Alloc(4096)
		if err != nil {
			return err
		}
		var mems []*RegisteredMemory
		for i := range 3 {
			m, err := ctx.RegisterMemory(r.dev, a.Ptr().Add(int64(i)*1000), int64(100+i), Flags(IPC))
			if err != nil {
				return err
			}
			mems = append(mems, m)
		}
		cfg := EndpointConfig{Transport: IPC, Device: r.dev}
		var got []*Future[*RegisteredMemory]
		var conn *Future[*Connection]
		if other == 1 {
			conn = r.comm.Connect(cfg, other, 4)
			for _, m := range mems {
				r.comm.SendMemory(m, other, 4)
			}
			for range mems {
				got = append(got, r.comm.RecvMemory(other, 4))
			}
		} else {
			for range mems {
				got = append(got, r.comm.RecvMemory(other, 4))
			}
			for _, m := range mems {
				r.comm.SendMemory(m, other, 4)
			}
			conn = r.comm.Connect(cfg, other, 4)
		}
		for i := len(got) - 1; i >= 0; i-- {
			m, err := got[i].Get(bg)
			if err != nil || m.Size() != int64(100+i) {
				return fmt.Errorf("memory %d: %v, %w", i, m, err)
			}
		}
		c, err := conn.Get(bg)
		if err != nil || r.comm.RemoteRankOf(c) != other || r.comm.TagOf(c) != 4 {
			return fmt.Errorf("connection: %w", err)
		}
		if _, err := r.comm.Connect(cfg, 7, 0).Get(bg); !errors.Is(err, ErrInvalid) {
			return fmt.Errorf("rank 7: %v", err)
		}
		return nil
	})
}

func TestNothingIsLeftAfterClose(t *testing.T) {
	run := func() {
		job(t, 2, func(r *rank) error {
			handles, _, err := mesh(r, Ethernet, 4096)
			if err != nil {
				return err
			}
			other := 1 - r.comm.Rank()
			if s := handles[other].PutWithSignalAndFlush(0, 0, 8); s != StatusOK {
				return s.Err()
			}
			return handles[other].Wait().Err()
		})
	}
	run() // the first run starts what lives as long as the process
	time.Sleep(20 * time.Millisecond)
	goroutines, fds := runtime.NumGoroutine(), openFiles(t)
	for range 5 {
		run()
	}
	end := time.Now().Add(30 * time.Second)
	for runtime.NumGoroutine() > goroutines && time.Now().Before(end) {
		time.Sleep(5 * time.Millisecond)
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		buf := make([]byte, 1<<16)
		t.Errorf("%d goroutines, %d before\n%s", n, goroutines, buf[:runtime.Stack(buf, true)])
	}
	live.Lock()
	defer live.Unlock()
	if len(live.mem) != 0 {
		t.Errorf("%d memories are still registered", len(live.mem))
	}
	// The devices of the runs hold their memfds until the test ends; nothing else may stay.
	if n := openFiles(t); n > fds+5*2 {
		t.Errorf("%d descriptors, %d before", n, fds)
	}
}
