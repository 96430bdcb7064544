// Tutorial 03: moving data by MemoryChannels, where the kernel itself loads from and stores to the peer's memory. Two
// ranks use both directions at once, in three ways: put (store to the peer, then signal), get (load from the peer), and
// packets, which contain flags and need no signal. Every byte is checked; bandwidth is printed per direction.
//
// On GPUs the kernels come from kernels/examples/memory_channel.cu. To run your own, copy that file, change it, and
// pass -kernels FILE.
package main

import (
	"flag"
	"fmt"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/examples/tutorial"
	"github.com/goccl/goccl/primitive"
)

func main() {
	bytes := flag.Int64("bytes", 0, "bytes to move; 0 is 64 MiB on a GPU and 4 MiB on the host")
	iterations := flag.Int("iterations", 20, "timed repetitions")
	o := tutorial.Parse(2)
	tutorial.Exit(tutorial.Run(o, func(r *tutorial.Rank) error { return run(r, *bytes, *iterations) }))
}

// lesson is the data of one way to move data: memories, and a channel between them.
type lesson struct {
	r          *tutorial.Rank
	bytes      int64
	data, recv *tutorial.Memory
	packets    *tutorial.Memory
	syncer     device.Ptr
}

const blocks, threads = 64, 512

func run(r *tutorial.Rank, bytes int64, iterations int) error {
	if r.WorldSize() != 2 {
		return tutorial.Message("this tutorial is for two ranks, not %d", r.WorldSize())
	}
	if bytes <= 0 {
		bytes = 4 << 20
		if !r.Device.IsHost() {
			bytes = 64 << 20
		}
	}
	peer := 1 - r.Rank()
	conn, err := tutorial.Get(r.Comm.Connect(primitive.EndpointConfig{Transport: primitive.IPC, Device: r.Device.Device},
		peer, 0))
	if err != nil {
		return err
	}
	sema, err := tutorial.Get(r.Comm.BuildSemaphore(conn, peer, 0))
	if err != nil {
		return err
	}
	l := &lesson{r: r, bytes: bytes}
	var remote [3]*primitive.RegisteredMemory
	for i, m := range []struct {
		mem  **tutorial.Memory
		size int64
	}{{&l.data, bytes}, {&l.recv, bytes}, {&l.packets, 2 * primitive.LL16.BufferSize(bytes)}} {
		if *m.mem, err = r.NewMemory(m.size); err != nil {
			return err
		}
		if remote[i], err = r.Exchange(*m.mem, peer, i); err != nil {
			return err
		}
	}
	if err := l.data.Fill(0, bytes, r.Rank()); err != nil {
		return err
	}
	if l.syncer, err = r.Device.Put(make([]byte, 16)); err != nil {
		return err
	}

	put, err := primitive.NewMemoryChannel(sema, remote[1], l.data.RegisteredMemory, nil)
	if err != nil {
		return err
	}
	get, err := primitive.NewMemoryChannel(sema, remote[0], l.recv.RegisteredMemory, nil)
	if err != nil {
		return err
	}
	packets, err := primitive.NewMemoryChannel(sema, remote[2], l.data.RegisteredMemory, l.packets.RegisteredMemory)
	if err != nil {
		return err
	}
	for _, way := range []struct {
		name   string
		handle primitive.MemoryChannelHandle
		kernel func(l *lesson, at device.Ptr, h primitive.MemoryChannelHandle, round int) tutorial.Kernel
	}{{"put", put.DeviceHandle(), putKernel}, {"get", get.DeviceHandle(), getKernel},
		{"packets", packets.DeviceHandle(), packetKernel}} {
		at, err := tutorial.Upload(r.Device, way.handle)
		if err != nil {
			return err
		}
		// Once to check and to warm up, then all timed rounds in a row: a launch does not wait for the one before.
		var took time.Duration
		for _, rounds := range []struct{ first, n int }{{0, 1}, {1, iterations}} {
			if took, err = l.do(peer, rounds.n, func(i int) tutorial.Kernel {
				return way.kernel(l, at, way.handle, rounds.first+i)
			}); err != nil {
				return fmt.Errorf("%s: %w", way.name, err)
			}
		}
		r.Print("%-8s %d bytes each way: %8.2f GB/s per direction", way.name, bytes,
			float64(bytes)*float64(iterations)/took.Seconds()/1e9)
	}
	r.Print("Succeed!")
	return nil
}

// do runs n rounds and checks what the last one brought.
func (l *lesson) do(peer, n int, kernel func(i int) tutorial.Kernel) (time.Duration, error) {
	if err := l.recv.Write(0, make([]byte, l.bytes)); err != nil {
		return 0, err
	}
	if err := l.r.Meet(); err != nil { // the peer's memory is empty, too
		return 0, err
	}
	took, err := l.r.DoAll(n, kernel)
	if err != nil {
		return 0, err
	}
	return took, l.recv.Check(0, l.bytes, peer)
}

// putKernel stores to the peer. Then the leader signals and waits for the peer's signal: the peer's data has arrived.
func putKernel(l *lesson, at device.Ptr, h primitive.MemoryChannelHandle, _ int) tutorial.Kernel {
	return tutorial.Kernel{
		Name: "tutorial_put", Blocks: blocks, Threads: threads, HostBlocks: 2,
		Args: func(a *cuda.Args, status device.Ptr) { a.Ptr(at).Uint64(uint64(l.bytes)).Ptr(l.syncer).Ptr(status) },
		Host: func(b *host.Block) primitive.Status {
			h.Put(0, 0, l.bytes, b.Index, b.Count)
			if err := b.Barrier(); err != nil || b.Index != 0 {
				return tutorial.HostStatus(err)
			}
			h.Signal()
			return h.Wait()
		},
	}
}

// getKernel loads from the peer after a handshake: its memory is ready. It may change when the peer comes to the next
// handshake.
func getKernel(l *lesson, at device.Ptr, h primitive.MemoryChannelHandle, _ int) tutorial.Kernel {
	return tutorial.Kernel{
		Name: "tutorial_get", Blocks: blocks, Threads: threads, HostBlocks: 2,
		Args: func(a *cuda.Args, status device.Ptr) { a.Ptr(at).Uint64(uint64(l.bytes)).Ptr(l.syncer).Ptr(status) },
		Host: func(b *host.Block) primitive.Status {
			if b.Index == 0 {
				h.Signal()
				if s := h.Wait(); s != primitive.StatusOK {
					return s
				}
			}
			if err := b.Barrier(); err != nil {
				return tutorial.HostStatus(err)
			}
			h.Get(0, 0, l.bytes, b.Index, b.Count)
			return primitive.StatusOK
		},
	}
}

// packetKernel sends packets of the round's epoch and unpacks the peer's. Successive epochs alternate between two
// halves of the packet buffer: when a rank has the peer's packets of one epoch, the peer has read the packets of the
// epoch before.
func packetKernel(l *lesson, at device.Ptr, h primitive.MemoryChannelHandle, round int) tutorial.Kernel {
	flag := uint32(round + 1)
	half := int64(flag&1) * primitive.LL16.BufferSize(l.bytes)
	return tutorial.Kernel{
		Name: "tutorial_packets", Blocks: blocks, Threads: threads, HostBlocks: 2,
		Args: func(a *cuda.Args, status device.Ptr) {
			a.Ptr(at).Ptr(l.recv.Data()).Uint64(uint64(l.bytes)).Uint32(flag).Ptr(status)
		},
		Host: func(b *host.Block) primitive.Status {
			h.PutPackets(primitive.LL16, half, 0, l.bytes, b.Index, b.Count, flag)
			return primitive.CopyFromPackets(primitive.LL16, l.recv.Data(), h.PacketBuffer.Add(half), l.bytes, b.Index, b.Count,
				flag, h.Semaphore.Abort)
		},
	}
}
