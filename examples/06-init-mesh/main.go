// Tutorial 06: setting up a mesh step by step, without helpers: TCPBootstrap, Communicator in the deferred style,
// ProxyService, and the handles of all channels in constant memory of the GPU.
//
// Without an address it starts its ranks itself, which connect at an address of this host. Otherwise give each rank the
// same -address as interface:ip:port, ip:port or host:port.
//
// On GPUs the kernels come from kernels/examples/port_channel.cu. To run your own, copy that file, change it, and
// pass -kernels FILE.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/examples/tutorial"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/launch"
	"github.com/goccl/goccl/primitive"
)

// maxRanks is the size of constPortChans in the CUDA kernel.
const maxRanks = 8

func main() {
	address := flag.String("address", "", "where rank 0 listens; empty: MASTER_ADDR and MASTER_PORT")
	bytes := flag.Int64("bytes", 1<<20, "bytes of each rank's slice")
	o := tutorial.Parse(maxRanks)
	tutorial.Exit(start(o, *address, *bytes))
}

// start runs this process as the rank that its environment specifies, or starts all ranks.
func start(o tutorial.Options, address string, bytes int64) error {
	env, err := bootstrap.FromEnv()
	if errors.Is(err, bootstrap.ErrNoLauncher) {
		if o.Ranks < 2 || o.Ranks > maxRanks {
			return tutorial.Message("-ranks %d: choose 2 to %d", o.Ranks, maxRanks)
		}
		self, err := os.Executable()
		if err != nil {
			return err
		}
		if address == "" {
			if address, err = freeAddress(); err != nil {
				return err
			}
		}
		// Later flags override earlier ones.
		program := append(append([]string{self}, os.Args[1:]...), "-address", address)
		return launch.Run(context.Background(), launch.Options{N: o.Ranks, Program: program})
	}
	if err != nil {
		return err
	}
	if address == "" {
		address = env.Address()
	}
	kind, err := tutorial.Kind(o.Device, max(env.LocalSize, 1))
	if err != nil {
		return err
	}
	if err := setupMesh(env.Rank, env.WorldSize, max(0, env.LocalRank), address, kind, o.Kernels, bytes); err != nil {
		return fmt.Errorf("rank %d: %w", env.Rank, err)
	}
	return nil
}

// freeAddress returns the address of a port of this host that was free a moment ago.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(l.Addr().(*net.TCPAddr).Port)), nil
}

func setupMesh(rank, worldSize, local int, address, kind, kernels string, bytes int64) (err error) {
	if worldSize < 2 || worldSize > maxRanks {
		return tutorial.Message("this tutorial is for 2 to %d ranks, not %d", maxRanks, worldSize)
	}
	ctx, cancel := context.WithTimeout(context.Background(), tutorial.Timeout)
	defer cancel()

	// 1. Connect to the other ranks.
	bs, err := bootstrap.JoinAddress(ctx, address, rank, worldSize)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bs.Close()) }()

	dev, err := tutorial.Open(kind, local, kernels)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	comm := primitive.NewCommunicator(bs, nil)
	defer func() { err = errors.Join(err, comm.Close()) }()
	service, err := primitive.NewProxyService(comm.Context(), dev.Device, primitive.ProxyOptions{})
	if err != nil {
		return err
	}

	// 2. Connect to all other ranks and exchange memories; setup waits for all of it.
	buffer, err := dev.Alloc(bytes * int64(worldSize))
	if err != nil {
		return err
	}
	memory, err := comm.Context().RegisterMemory(dev.Device, buffer.Ptr(), bytes*int64(worldSize),
		primitive.Flags(primitive.IPC))
	if err != nil {
		return err
	}
	connections := make([]*primitive.Future[*primitive.Connection], worldSize)
	remoteMemories := make([]*primitive.Future[*primitive.RegisteredMemory], worldSize)
	for r := range worldSize {
		if r == rank {
			continue
		}
		connections[r] = comm.ConnectOnSetup(r, 0, primitive.EndpointConfig{Transport: primitive.IPC, Device: dev.Device})
		comm.SendMemoryOnSetup(memory, r, 0)
		remoteMemories[r] = comm.RecvMemoryOnSetup(r, 0)
	}
	if err := comm.Setup(ctx); err != nil {
		return err
	}

	// 3. A semaphore with each, and a port channel over it.
	semaphoreIDs := make([]primitive.SemaphoreID, worldSize)
	for r := range worldSize {
		if r == rank {
			continue
		}
		connection, err := connections[r].Get(ctx)
		if err != nil {
			return err
		}
		if semaphoreIDs[r], err = service.BuildAndAddSemaphore(comm, connection); err != nil {
			return err
		}
	}
	localID, err := service.AddMemory(memory)
	if err != nil {
		return err
	}
	handles := make([]primitive.PortChannelHandle, worldSize)
	for r := range worldSize {
		if r == rank {
			continue
		}
		remote, err := remoteMemories[r].Get(ctx)
		if err != nil {
			return err
		}
		remoteID, err := service.AddMemory(remote)
		if err != nil {
			return err
		}
		channel, err := service.PortChannel(semaphoreIDs[r], remoteID, localID)
		if err != nil {
			return err
		}
		handles[r] = channel.DeviceHandle()
	}

	// 4. The handles go to constant memory, the proxy starts, the kernel runs.
	if err := tutorial.SetConstant(dev, "constPortChans", handles...); err != nil {
		return err
	}
	if err := service.Start(); err != nil {
		return err
	}
	mine := tutorial.Pattern(bytes, rank)
	if err := dev.CopyIn(buffer.Ptr().Add(int64(rank)*bytes), mine); err != nil {
		return err
	}
	if err := bs.Barrier(ctx); err != nil {
		return err
	}
	running, err := dev.Launch(kernel(handles, rank, bytes))
	if err != nil {
		return err
	}
	if _, err := running.Wait(tutorial.Timeout, comm.Context().Err); err != nil {
		return err
	}

	// 5. Every slice has arrived.
	got := make([]byte, bytes)
	for r := range worldSize {
		if err := dev.CopyOut(got, buffer.Ptr().Add(int64(r)*bytes)); err != nil {
			return err
		}
		if string(got) != string(tutorial.Pattern(bytes, r)) {
			return tutorial.Message("the slice of rank %d is wrong", r)
		}
	}
	if err := bs.Barrier(ctx); err != nil {
		return err
	}
	if err := service.Stop(); err != nil {
		return err
	}
	if rank == 0 {
		fmt.Printf("A mesh of %d ranks is set up; every slice of %d bytes has arrived.\nSucceed!\n", worldSize, bytes)
	}
	return nil
}

// kernel has one thread for each peer. On a GPU it reads the handles from constant memory.
func kernel(handles []primitive.PortChannelHandle, rank int, bytes int64) tutorial.Kernel {
	n := len(handles)
	return tutorial.Kernel{
		Name: "tutorial_init_mesh", Threads: n,
		Args: func(a *cuda.Args, status device.Ptr) {
			a.Uint32(uint32(rank)).Uint32(uint32(n)).Uint64(uint64(bytes)).Ptr(status)
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
