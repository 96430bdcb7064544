package primitive

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/goccl/goccl/job/bootstrap"
)

func TestAKilledRankEndsWaitsWithItsName(t *testing.T) {
	group := bootstrap.NewLocal(3)
	ctx := newContext(t)
	comm := NewCommunicator(group.Ranks[0], ctx)
	defer func() { _ = comm.Close() }()
	dev := open(t, 0)
	// Three kinds of waits: a future whose peer never answers, a kernel, a host semaphore.
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
	run() // the first run starts the process-wide parts
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
	// The devices of the runs hold their memfds until the test ends; nothing else may remain.
	if n := openFiles(t); n > fds+5*2 {
		t.Errorf("%d descriptors, %d before", n, fds)
	}
}
