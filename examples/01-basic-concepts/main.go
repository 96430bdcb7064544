// Tutorial 01: the basic concepts. Two devices of one process play ping-pong with signals. Endpoints become
// connections, semaphore stubs are made over connections, two stubs make a semaphore, and kernels use a channel over
// it. One side spins for a few milliseconds before it answers, so the other must measure at least that.
//
// On GPUs the kernels come from kernels/examples/ping_pong.cu. To run your own, copy that file, change it, and pass
// -kernels FILE.
package main

import (
	"errors"
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
	iterations := flag.Int("iterations", 100, "number of round trips")
	o := tutorial.Parse(2)
	tutorial.Exit(run(o, *iterations))
}

func run(o tutorial.Options, iterations int) (err error) {
	kind, err := tutorial.Kind(o.Device, 2)
	if err != nil {
		return err
	}
	available := o.Ranks
	name := "Device"
	if kind == "cuda" {
		name = "GPU"
		if available, err = cuda.Count(); err != nil {
			return err
		}
	}
	if available < 2 || o.Ranks < 2 {
		return tutorial.Message("At least two %ss are required", name)
	}
	if kind == "cuda" {
		if ok, err := cuda.CanAccessPeer(0, 1); err != nil || !ok {
			return errors.Join(tutorial.Message("GPU 0 cannot access GPU 1"), err)
		}
	}

	var dev [2]*tutorial.Device
	for i := range dev {
		if dev[i], err = tutorial.Open(kind, i, o.Kernels); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, dev[i].Close()) }()
	}
	ctx := primitive.NewContext(primitive.WithSpinLimit(tutorial.Timeout))
	defer func() { err = errors.Join(err, ctx.Close()) }()

	fmt.Println("Creating endpoints ...")
	var ep [2]*primitive.Endpoint
	for i := range ep {
		if ep[i], err = ctx.CreateEndpoint(primitive.EndpointConfig{Transport: primitive.IPC,
			Device: dev[i].Device}); err != nil {
			return err
		}
	}

	// In two processes the endpoints and the stubs would be exchanged as bytes: see tutorial 02.
	var stub [2]*primitive.SemaphoreStub
	for i := range stub {
		fmt.Printf("%s %d: Creating a connection and a semaphore stub ...\n", name, i)
		conn, err := ctx.Connect(ep[i], ep[1-i])
		if err != nil {
			return err
		}
		if stub[i], err = primitive.NewSemaphoreStub(conn); err != nil {
			return err
		}
	}
	var handle [2]primitive.BaseMemoryChannelHandle
	for i := range handle {
		fmt.Printf("%s %d: Creating a semaphore and a memory channel ...\n", name, i)
		sema, err := primitive.NewSemaphore(stub[i], stub[1-i])
		if err != nil {
			return err
		}
		channel, err := primitive.NewBaseMemoryChannel(sema)
		if err != nil {
			return err
		}
		handle[i] = channel.DeviceHandle()
	}

	fmt.Printf("%s 0: Launching gpuKernel0 ...\n", name)
	pong, err := launchPong(dev[0], handle[0], iterations)
	if err != nil {
		return err
	}
	fmt.Printf("%s 1: Launching gpuKernel1 ...\n", name)
	ping, err := launchPing(dev[1], handle[1], iterations)
	if err != nil {
		return err
	}
	elapsed, err := ping.Wait(tutorial.Timeout, ctx.Err)
	if _, perr := pong.Wait(tutorial.Timeout, ctx.Err); err == nil {
		err = perr
	}
	if err != nil {
		return err
	}
	ms := elapsed.Seconds() * 1e3 / float64(iterations)
	fmt.Printf("Elapsed %.5g ms per iteration (%d)\n", ms, iterations)
	if ms < 1 {
		return tutorial.Message("Failed: %.5g ms per iteration, but the other side spins for more than 1 ms", ms)
	}
	fmt.Println("Succeed!")
	return nil
}

// spin is the delay of the answering side: in clock cycles on a GPU, and about the same time on the host.
const (
	spinCycles = 10_000_000
	spinTime   = 2 * time.Millisecond
)

// launchPong waits, spins and answers.
func launchPong(d *tutorial.Device, h primitive.BaseMemoryChannelHandle, iterations int) (*tutorial.Running, error) {
	at, err := tutorial.Upload(d, h)
	if err != nil {
		return nil, err
	}
	return d.Launch(tutorial.Kernel{
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
	})
}

// launchPing signals and waits for the answer.
func launchPing(d *tutorial.Device, h primitive.BaseMemoryChannelHandle, iterations int) (*tutorial.Running, error) {
	at, err := tutorial.Upload(d, h)
	if err != nil {
		return nil, err
	}
	return d.Launch(tutorial.Kernel{
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
	})
}
