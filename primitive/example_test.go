package primitive_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/primitive"
)

// Two devices of one process: one puts and signals, the other waits. On a GPU, CUDA kernels make the same calls.
func Example() {
	ctx := primitive.NewContext()
	var dev [2]*host.Device
	var ep [2]*primitive.Endpoint
	var mem [2]*primitive.RegisteredMemory
	for i := range dev {
		dev[i], _ = host.Open(i)
		ep[i], _ = ctx.CreateEndpoint(primitive.EndpointConfig{Transport: primitive.IPC, Device: dev[i]})
		a, _ := dev[i].Alloc(64)
		mem[i], _ = ctx.RegisterMemory(dev[i], a.Ptr(), 64, primitive.Flags(primitive.IPC))
	}
	var stub [2]*primitive.SemaphoreStub
	for i := range stub {
		conn, _ := ctx.Connect(ep[i], ep[1-i])
		stub[i], _ = primitive.NewSemaphoreStub(conn)
	}
	var channel [2]primitive.MemoryChannelHandle
	for i := range channel {
		sema, _ := primitive.NewSemaphore(stub[i], stub[1-i])
		c, _ := primitive.NewMemoryChannel(sema, mem[1-i], mem[i], nil)
		channel[i] = c.DeviceHandle()
	}

	copy(device.Bytes(mem[0].Data(), 64), "hello")
	var kernel sync.WaitGroup
	kernel.Go(func() { channel[0].PutWithSignal(0, 0, 5) })
	fmt.Println(channel[1].Wait(), string(device.Bytes(mem[1].Data(), 5)))

	kernel.Wait() // the memory must outlive what uses it
	_ = ctx.Close()
	for _, d := range dev {
		_ = d.Close()
	}
	// Output: ok hello
}

// An abort of the Context ends waits that would never complete.
func ExampleContext_Abort() {
	ctx := primitive.NewContext()
	dev, _ := host.Open(0)
	ep, _ := ctx.CreateEndpoint(primitive.EndpointConfig{Transport: primitive.IPC, Device: dev})
	conn, _ := ctx.Connect(ep, ep)
	stub, _ := primitive.NewSemaphoreStub(conn)
	sema, _ := primitive.NewSemaphore(stub, stub)
	h := sema.DeviceHandle()

	go ctx.Abort(&primitive.Error{Part: primitive.Part, Op: "all_reduce", Rank: 0, Peer: 3, Err: primitive.ErrPeerDead})
	fmt.Println(h.Wait())
	fmt.Println(ctx.Err())

	_ = ctx.Close()
	_ = dev.Close()
	// Output:
	// a rank has died or its host cannot be reached
	// primitive: all_reduce on rank 0, peer 3: a rank has died or its host cannot be reached
}

// Two ranks meet through a bootstrap, connect, exchange memories, and one puts into the other's memory through a proxy.
// Over Ethernet, between hosts, the same program uses primitive.Ethernet instead of primitive.IPC.
func ExampleCommunicator() {
	bg := context.Background()
	rank := func(bs bootstrap.Bootstrap) error {
		defer func() { _ = bs.Close() }()
		dev, err := host.Open(bs.Rank())
		if err != nil {
			return err
		}
		defer func() { _ = dev.Close() }()
		comm := primitive.NewCommunicator(bs, nil)
		defer func() { _ = comm.Close() }()
		a, err := dev.Alloc(64)
		if err != nil {
			return err
		}
		mem, err := comm.Context().RegisterMemory(dev, a.Ptr(), 64, primitive.Flags(primitive.IPC, primitive.Ethernet))
		if err != nil {
			return err
		}

		// 1. Start all exchanges with the peer; the futures complete in any order.
		peer := 1 - bs.Rank()
		connecting := comm.Connect(primitive.EndpointConfig{Transport: primitive.IPC, Device: dev}, peer, 0)
		comm.SendMemory(mem, peer, 0)
		receiving := comm.RecvMemory(peer, 0)
		conn, err := connecting.Get(bg)
		if err != nil {
			return err
		}
		theirs, err := receiving.Get(bg)
		if err != nil {
			return err
		}

		// 2. A proxy service moves data for kernels.
		service, err := primitive.NewProxyService(comm.Context(), dev, primitive.ProxyOptions{})
		if err != nil {
			return err
		}
		semaphore, err := service.BuildAndAddSemaphore(comm, conn)
		if err != nil {
			return err
		}
		to, err := service.AddMemory(theirs)
		if err != nil {
			return err
		}
		from, err := service.AddMemory(mem)
		if err != nil {
			return err
		}
		channel, err := service.PortChannel(semaphore, to, from)
		if err != nil {
			return err
		}
		if err := service.Start(); err != nil {
			return err
		}

		// 3. The code that a kernel runs with the handle.
		h := channel.DeviceHandle()
		if bs.Rank() == 0 {
			copy(device.Bytes(mem.Data(), 64), "over the proxy")
			if s := h.PutWithSignalAndFlush(0, 0, 14); s != primitive.StatusOK {
				return s.Err()
			}
		} else {
			if s := h.Wait(); s != primitive.StatusOK {
				return s.Err()
			}
			fmt.Printf("%s\n", device.Bytes(mem.Data(), 14))
		}
		if err := service.Stop(); err != nil {
			return err
		}
		return bs.Barrier(bg) // keeps the memory valid until no peer uses it
	}
	var ranks sync.WaitGroup
	for _, bs := range bootstrap.NewLocalGroup(2) {
		ranks.Go(func() {
			if err := rank(bs); err != nil {
				fmt.Println(err)
			}
		})
	}
	ranks.Wait()
	// Output: over the proxy
}

// A proxy with a custom handler: kernels push triggers, and the handler gets each in order.
func ExampleNewProxy() {
	ctx := primitive.NewContext()
	dev, _ := host.Open(0)
	proxy, err := primitive.NewProxy(ctx, dev, func(t primitive.Trigger, position uint64) error {
		fmt.Println(position, t.Size)
		return nil
	}, primitive.ProxyOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = proxy.Start()
	fifo := proxy.Fifo().DeviceHandle()
	for i := range uint64(3) {
		fifo.Push(primitive.Trigger{Type: primitive.TriggerData, Size: 100 * i})
	}
	fmt.Println(proxy.Stop()) // executes the triggers pushed before
	_ = ctx.Close()
	_ = dev.Close()
	// Output:
	// 0 0
	// 1 100
	// 2 200
	// <nil>
}
