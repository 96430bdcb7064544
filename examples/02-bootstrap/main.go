// Tutorial 02: the ping-pong of tutorial 01 between two processes. A bootstrap connects the ranks, a Communicator
// exchanges endpoints and semaphore stubs over it; the kernels are the same.
//
// Without a launcher it starts its two ranks itself. It also runs under torchrun, mpirun, srun or goccl run.
//
// On GPUs the kernels come from kernels/examples/ping_pong.cu. To run your own, copy that file, change it, and pass
// -kernels FILE.
package main

import (
	"flag"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/examples/tutorial"
	"github.com/goccl/goccl/primitive"
)

func main() {
	iterations := flag.Int("iterations", 100, "number of round trips")
	o := tutorial.Parse(2)
	tutorial.Exit(tutorial.Run(o, func(r *tutorial.Rank) error { return run(r, *iterations) }))
}

func run(r *tutorial.Rank, iterations int) error {
	if r.WorldSize() != 2 {
		return tutorial.Message("this tutorial is for two ranks, not %d", r.WorldSize())
	}
	peer := 1 - r.Rank()

	// 1. Connect: both ranks call it, the Communicator exchanges the endpoints.
	r.Print("Connecting ...")
	conn, err := tutorial.Get(r.Comm.Connect(primitive.EndpointConfig{Transport: primitive.IPC, Device: r.Device.Device},
		peer, 0))
	if err != nil {
		return err
	}
	// 2. Build a semaphore over the connection: the stubs are exchanged.
	r.Print("Building a semaphore ...")
	sema, err := tutorial.Get(r.Comm.BuildSemaphore(conn, peer, 0))
	if err != nil {
		return err
	}
	channel, err := primitive.NewBaseMemoryChannel(sema)
	if err != nil {
		return err
	}
	// 3. Launch: rank 1 signals, rank 0 answers.
	r.Print("Launching the kernels ...")
	h := channel.DeviceHandle()
	at, err := tutorial.Upload(r.Device, h)
	if err != nil {
		return err
	}
	kernel := pong(at, h, iterations)
	if r.Rank() == 1 {
		kernel = ping(at, h, iterations)
	}
	running, err := r.Device.Launch(kernel)
	if err != nil {
		return err
	}
	elapsed, err := running.Wait(tutorial.Timeout, r.Ctx.Err)
	if err != nil {
		return err
	}
	ms := elapsed.Seconds() * 1e3 / float64(iterations)
	if ms < 1 {
		return tutorial.Message("Failed: %.5g ms per iteration, but rank 0 spins for more than 1 ms", ms)
	}
	r.Print("Elapsed %.5g ms per iteration (%d)", ms, iterations)
	r.Print("Succeed!")
	return nil
}

// The delay before rank 0 answers: in clock cycles on a GPU, and about the same time on the host.
const (
	spinCycles = 10_000_000
	spinTime   = 2 * time.Millisecond
)

func pong(at device.Ptr, h primitive.BaseMemoryChannelHandle, iterations int) tutorial.Kernel {
	return tutorial.Kernel{
		Name: "tutorial_pong",
		Args: func(a *cuda.Args, status device.Ptr) {
			a.Ptr(at).Int32(int32(iterations)).Uint64(spinCycles).Ptr(status)
		},
		Host: func(*host.Block) primitive.Status {
			for range iterations {
				if s := h.RelaxedWait(); s != primitive.StatusOK {
					return s
				}
				for end := time.Now().Add(spinTime); time.Now().Before(end); {
				}
				h.RelaxedSignal()
			}
			return primitive.StatusOK
		},
	}
}

func ping(at device.Ptr, h primitive.BaseMemoryChannelHandle, iterations int) tutorial.Kernel {
	return tutorial.Kernel{
		Name: "tutorial_ping",
		Args: func(a *cuda.Args, status device.Ptr) { a.Ptr(at).Int32(int32(iterations)).Ptr(status) },
		Host: func(*host.Block) primitive.Status {
			for range iterations {
				h.RelaxedSignal()
				if s := h.RelaxedWait(); s != primitive.StatusOK {
					return s
				}
			}
			return primitive.StatusOK
		},
	}
}
