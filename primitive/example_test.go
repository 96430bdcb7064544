package primitive_test

import (
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/primitive"
)

// Two devices of one process: one puts and signals, the other waits. On a GPU the same calls stand in CUDA kernels.
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
	go channel[0].PutWithSignal(0, 0, 5)
	fmt.Println(channel[1].Wait(), string(device.Bytes(mem[1].Data(), 5)))

	_ = ctx.Close()
	for _, d := range dev {
		_ = d.Close()
	}
	// Output: ok hello
}

// A context ends waits that will never be answered.
func ExampleContext_Abort() {
	ctx := primitive.NewContext()
	dev, _ := host.Open(0)
	ep, _ := ctx.CreateEndpoint(primitive.EndpointConfig{Transport: primitive.IPC, Device: dev})
	conn, _ := ctx.Connect(ep, ep)
	stub, _ := primitive.NewSemaphoreStub(conn)
	sema, _ := primitive.NewSemaphore(stub, stub)
	h := sema.DeviceHandle()

	go ctx.Abort(&primitive.Error{Op: "all_reduce", Rank: 0, Peer: 3, Err: primitive.ErrPeerDead})
	fmt.Println(h.Wait())
	fmt.Println(ctx.Err())

	_ = ctx.Close()
	_ = dev.Close()
	// Output:
	// peer is dead
	// primitive: all_reduce (rank 0, peer 3): peer is dead
}
