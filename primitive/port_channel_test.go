package primitive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
)

// rank is one rank of a job in this process.
type rank struct {
	comm    *Communicator
	dev     device.Device
	service *ProxyService
}

// job runs f for each of n ranks concurrently.
func job(t *testing.T, n int, f func(r *rank) error, opts ...ContextOption) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i, bs := range bootstrap.NewLocalGroup(n) {
		r := &rank{dev: open(t, i)}
		wg.Go(func() {
			defer func() { errs[i] = errors.Join(errs[i], bs.Close()) }()
			ctx := NewContext(append([]ContextOption{WithTimeout(10 * time.Second), WithSpinLimit(10 * time.Second)},
				opts...)...)
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
	mem, err := ctx.RegisterMemory(r.dev, a.Ptr(), size, Flags(transports()...))
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
	for _, transport := range transports() {
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

// Many channels of several services, a FIFO that is often full, many pushing threads: no trigger is lost and each
// channel keeps its order.
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
