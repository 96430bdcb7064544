// Tutorial 05: an all-reduce by a SwitchChannel, which reads from and writes to all ranks at once. Each rank reduces
// its slice of all ranks' buffers and broadcasts the result into all buffers. A barrier over BaseMemoryChannels
// precedes and follows this.
//
// This is the unicast form: it loads from and stores to each peer and uses no multicast.
//
// On GPUs the kernels come from kernels/examples/switch_channel.cu. To run your own, copy that file, change it, and
// pass -kernels FILE.
package main

import (
	"context"
	"flag"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/examples/tutorial"
	"github.com/goccl/goccl/primitive"
)

func main() {
	count := flag.Int64("count", 1<<18, "elements (float32) of each rank's buffer; rounded up to a multiple of 4 x ranks")
	o := tutorial.Parse(4)
	tutorial.Exit(tutorial.Run(o, func(r *tutorial.Rank) error { return run(r, *count) }))
}

func run(r *tutorial.Rank, count int64) error {
	n, rank := r.WorldSize(), r.Rank()
	step := 4 * int64(n)
	count = max(1, (count+step-1)/step) * step
	mem, err := r.NewMemory(count * 4)
	if err != nil {
		return err
	}
	// 1. A channel over the buffers of all ranks, and one to each peer for the barriers.
	ctx, cancel := context.WithTimeout(context.Background(), tutorial.Timeout)
	defer cancel()
	sw, err := primitive.NewSwitchChannel(ctx, r.Comm, r.Device.Device, mem.RegisteredMemory, 0)
	if err != nil {
		return err
	}
	peers := make([]primitive.BaseMemoryChannelHandle, n)
	for p := range n {
		if p == rank {
			continue
		}
		conn, err := tutorial.Get(r.Comm.Connect(primitive.EndpointConfig{Transport: primitive.IPC, Device: r.Device.Device},
			p, 0))
		if err != nil {
			return err
		}
		sema, err := tutorial.Get(r.Comm.BuildSemaphore(conn, p, 0))
		if err != nil {
			return err
		}
		channel, err := primitive.NewBaseMemoryChannel(sema)
		if err != nil {
			return err
		}
		peers[p] = channel.DeviceHandle()
	}
	// 2. Element i of rank k is (k+1)·(i mod 1000): sums are whole numbers, so they are exact in any order.
	values := make([]float32, count)
	for i := range values {
		values[i] = float32((rank + 1) * (i % 1000))
	}
	if err := mem.Write(0, device.BytesOf(values)); err != nil {
		return err
	}
	if err := r.Meet(); err != nil {
		return err
	}
	// 3. Reduce and broadcast.
	kernel, err := switchKernel(r, sw.DeviceHandle(), peers, count)
	if err != nil {
		return err
	}
	d, err := r.Do(kernel)
	if err != nil {
		return err
	}
	// 4. Every rank has the sum.
	if err := r.Device.CopyOut(device.BytesOf(values), mem.Data()); err != nil {
		return err
	}
	for i, got := range values {
		if want := float32(n * (n + 1) / 2 * (i % 1000)); got != want {
			return tutorial.Message("element %d is %v, want %v", i, got, want)
		}
	}
	r.Print("%d ranks, %d elements: %.1f us", n, count, d.Seconds()*1e6)
	if err := r.Meet(); err != nil {
		return err
	}
	if err := sw.Close(); err != nil {
		return err
	}
	r.Print("Succeed!")
	return nil
}

// switchKernel runs a barrier, reduces and broadcasts this rank's slice, and runs a barrier again.
func switchKernel(r *tutorial.Rank, h primitive.SwitchChannelHandle, peers []primitive.BaseMemoryChannelHandle,
	count int64) (tutorial.Kernel, error) {
	k := tutorial.Kernel{Name: "tutorial_switch", Blocks: 32, Threads: 512, HostBlocks: 2}
	at, err := tutorial.Upload(r.Device, h)
	if err != nil {
		return k, err
	}
	channels, err := tutorial.Upload(r.Device, peers...)
	if err != nil {
		return k, err
	}
	syncer, err := r.Device.Put(make([]byte, 16))
	if err != nil {
		return k, err
	}
	k.Args = func(a *cuda.Args, status device.Ptr) {
		a.Ptr(at).Ptr(channels).Uint64(uint64(count)).Ptr(syncer).Ptr(status)
	}
	// The slice is reduced into separate memory and then broadcast: the buffers hold the inputs until then.
	slice := count / int64(h.NRanks)
	result, err := r.Device.Alloc(slice * 4)
	if err != nil {
		return k, err
	}
	k.Host = func(b *host.Block) primitive.Status {
		meet := func() primitive.Status {
			if err := b.Barrier(); err != nil {
				return tutorial.HostStatus(err)
			}
			for p := range peers {
				if b.Index == 0 && p != int(h.Rank) {
					peers[p].Signal()
				}
			}
			for p := range peers {
				if b.Index == 0 && p != int(h.Rank) {
					if s := peers[p].Wait(); s != primitive.StatusOK {
						return s
					}
				}
			}
			return tutorial.HostStatus(b.Barrier())
		}
		if s := meet(); s != primitive.StatusOK {
			return s
		}
		first := slice * int64(h.Rank)
		if err := h.Reduce(result.Ptr(), first, slice, datatype.Float32, datatype.Sum, b.Index, b.Count); err != nil {
			return tutorial.HostStatus(err)
		}
		if err := b.Barrier(); err != nil {
			return tutorial.HostStatus(err)
		}
		if err := h.Broadcast(first*4, result.Ptr(), slice*4, b.Index, b.Count); err != nil {
			return tutorial.HostStatus(err)
		}
		return meet()
	}
	return k, nil
}
