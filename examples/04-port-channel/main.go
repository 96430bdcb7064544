// Tutorial 04: a full mesh of PortChannels. A kernel posts requests, and the proxy of its process copies: every rank
// puts its slice to all others with putWithSignalAndFlush and waits for their slices. Between ranks of one host the
// proxy copies through shared memory or peer access; between hosts it sends by TCP. The kernel is the same.
//
// On GPUs the kernels come from kernels/examples/port_channel.cu. To run your own, copy that file, change it, and
// pass -kernels FILE.
package main

import (
	"flag"
	"fmt"
	"sync"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/examples/tutorial"
	"github.com/goccl/goccl/primitive"
)

func main() {
	bytes := flag.Int64("bytes", 1<<20, "bytes of each rank's slice")
	iterations := flag.Int("iterations", 10, "timed repetitions")
	transport := flag.String("transport", "auto", "auto (ipc on one host, ethernet between hosts), ipc or ethernet")
	o := tutorial.Parse(4)
	tutorial.Exit(tutorial.Run(o, func(r *tutorial.Rank) error { return run(r, *transport, *bytes, *iterations) }))
}

func run(r *tutorial.Rank, transport string, bytes int64, iterations int) error {
	n, rank := r.WorldSize(), r.Rank()
	if bytes < 1 || n < 2 {
		return tutorial.Message("at least two ranks and one byte are required")
	}
	// 1. One buffer of n slices; slice p belongs to rank p.
	mem, err := r.NewMemory(bytes * int64(n))
	if err != nil {
		return err
	}
	service, err := primitive.NewProxyService(r.Ctx, r.Device.Device, primitive.ProxyOptions{})
	if err != nil {
		return err
	}
	src, err := service.AddMemory(mem.RegisteredMemory)
	if err != nil {
		return err
	}
	// 2. Start each step with every peer, then collect: the futures complete in any order.
	conns := make([]*primitive.Future[*primitive.Connection], n)
	remote := make([]*primitive.Future[*primitive.RegisteredMemory], n)
	for p := range n {
		if p == rank {
			continue
		}
		t := r.Transport(p)
		if transport != "auto" {
			if t, err = primitive.ParseTransport(transport); err != nil {
				return err
			}
		}
		conns[p] = r.Comm.Connect(primitive.EndpointConfig{Transport: t, Device: r.Device.Device}, p, 0)
		r.Comm.SendMemory(mem.RegisteredMemory, p, 0)
		remote[p] = r.Comm.RecvMemory(p, 0)
	}
	semaphores := make([]primitive.SemaphoreID, n)
	for p := range n {
		if p == rank {
			continue
		}
		conn, err := tutorial.Get(conns[p])
		if err != nil {
			return err
		}
		if semaphores[p], err = service.BuildAndAddSemaphore(r.Comm, conn); err != nil {
			return err
		}
	}
	handles := make([]primitive.PortChannelHandle, n)
	for p := range n {
		if p == rank {
			continue
		}
		m, err := tutorial.Get(remote[p])
		if err != nil {
			return err
		}
		dst, err := service.AddMemory(m)
		if err != nil {
			return err
		}
		channel, err := service.PortChannel(semaphores[p], dst, src)
		if err != nil {
			return err
		}
		handles[p] = channel.DeviceHandle()
	}
	if err := service.Start(); err != nil {
		return err
	}
	at, err := tutorial.Upload(r.Device, handles...)
	if err != nil {
		return err
	}

	// 3. Exchange and check, then exchange and time.
	var total time.Duration
	for round := range iterations + 1 {
		if err := mem.Fill(int64(rank)*bytes, bytes, rank+100*round); err != nil {
			return err
		}
		if err := r.Meet(); err != nil {
			return err
		}
		d, err := r.Do(meshKernel(at, handles, rank, bytes))
		if err != nil {
			return err
		}
		for p := range n {
			if err := mem.Check(int64(p)*bytes, bytes, p+100*round); err != nil {
				return fmt.Errorf("round %d, slice of rank %d: %w", round, p, err)
			}
		}
		if round > 0 {
			total += d
		}
		if err := r.Meet(); err != nil {
			return err
		}
	}
	if iterations > 0 {
		us := total.Seconds() * 1e6 / float64(iterations)
		r.Print("%d ranks, %d bytes to each peer: %.1f us, %.3f GB/s sent per rank", n, bytes, us,
			float64(bytes)*float64(n-1)/us/1e3)
	}
	if err := service.Stop(); err != nil {
		return err
	}
	r.Print("Succeed!")
	return nil
}

// meshKernel has one thread for each peer: it puts this rank's slice to the peer and waits for the peer's.
func meshKernel(at device.Ptr, handles []primitive.PortChannelHandle, rank int, bytes int64) tutorial.Kernel {
	n := len(handles)
	return tutorial.Kernel{
		Name: "tutorial_port_mesh", Threads: n,
		Args: func(a *cuda.Args, status device.Ptr) {
			a.Ptr(at).Uint32(uint32(rank)).Uint32(uint32(n)).Uint64(uint64(bytes)).Ptr(status)
		},
		Host: func(*host.Block) primitive.Status {
			status := make([]primitive.Status, n)
			var threads sync.WaitGroup
			for p := range handles {
				if p == rank {
					continue
				}
				threads.Go(func() {
					offset := uint64(rank) * uint64(bytes)
					if status[p] = handles[p].PutWithSignalAndFlush(offset, offset, uint64(bytes)); status[p] == primitive.StatusOK {
						status[p] = handles[p].Wait()
					}
				})
			}
			threads.Wait()
			for _, s := range status {
				if s != primitive.StatusOK {
					return s
				}
			}
			return primitive.StatusOK
		},
	}
}
