package goccl_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
)

// ranks runs f for the n ranks of a job, which are goroutines here. Usually each is a process, and bootstrap.Join
// connects them.
func ranks(n int, f func(c *goccl.Comm)) {
	var wg sync.WaitGroup
	for r, boot := range bootstrap.NewLocalGroup(n) {
		wg.Go(func() {
			dev, err := host.Open(r) // cuda.Open on a machine with GPUs
			if err != nil {
				log.Fatal(err)
			}
			comm, err := goccl.NewComm(context.Background(),
				goccl.Config{Bootstrap: boot, Device: dev, OpTimeout: 10 * time.Second})
			if err != nil {
				log.Fatal(err)
			}
			f(comm)
			_, _, _ = comm.Close(), boot.Close(), dev.Close()
		})
	}
	wg.Wait()
}

// put allocates memory for the values on the rank's device.
func put(dev device.Device, values ...float32) device.Ptr {
	mem, err := dev.Alloc(int64(4 * len(values)))
	if err != nil {
		log.Fatal(err)
	}
	if err := dev.CopyIn(mem.Ptr(), device.BytesOf(values)); err != nil {
		log.Fatal(err)
	}
	return mem.Ptr() // freed with the device
}

func get(dev device.Device, p device.Ptr, n int) []float32 {
	out := make([]float32, n)
	if err := dev.CopyOut(device.BytesOf(out), p); err != nil {
		log.Fatal(err)
	}
	return out
}

func ExampleNewComm() {
	ranks(4, func(comm *goccl.Comm) {
		dev := comm.Device()
		x := put(dev, float32(comm.Rank()), 1)
		stream, err := dev.NewStream()
		if err != nil {
			log.Fatal(err)
		}
		if err := comm.AllReduce(x, x, 2, datatype.Float32, datatype.Sum, stream); err != nil {
			log.Fatal(err)
		}
		if err := comm.Synchronize(context.Background(), stream); err != nil {
			log.Fatal(err)
		}
		if comm.Rank() == 0 {
			fmt.Println(get(dev, x, 2))
		}
	})
	// Output: [6 4]
}

func ExampleComm_Split() {
	ranks(4, func(comm *goccl.Comm) {
		// Two halves, the even and the odd ranks, each in reverse order.
		half, err := comm.Split(context.Background(), comm.Rank()%2, -comm.Rank())
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = half.Close() }()
		x := put(half.Device(), float32(comm.Rank()))
		all := put(half.Device(), 0, 0)
		if err := half.AllGather(x, all, 1, datatype.Float32, nil); err != nil {
			log.Fatal(err)
		}
		if comm.Rank() == 0 {
			fmt.Println(half.Rank(), get(half.Device(), all, 2))
		}
	})
	// Output: 1 [2 0]
}

// Sends and receives of a group progress together, so the order in which they are listed cannot deadlock.
func ExampleComm_Submit() {
	ranks(3, func(comm *goccl.Comm) {
		dev, n := comm.Device(), comm.WorldSize()
		out, in := put(dev, float32(10*comm.Rank())), put(dev, 0)
		err := comm.Submit(
			collective.Request{Collective: collective.Send, Send: out, Count: 1, Type: datatype.Float32,
				Peer: (comm.Rank() + 1) % n},
			collective.Request{Collective: collective.Recv, Recv: in, Count: 1, Type: datatype.Float32,
				Peer: (comm.Rank() + n - 1) % n},
		)
		if err != nil {
			log.Fatal(err)
		}
		if comm.Rank() == 0 {
			fmt.Println(get(dev, in, 1))
		}
	})
	// Output: [20]
}

// After the loss of a rank the others continue without it.
func ExampleComm_Shrink() {
	ranks(3, func(comm *goccl.Comm) {
		if comm.Rank() == 2 {
			return // leaves while the others still wait for it
		}
		x := put(comm.Device(), 1)
		err := comm.AllReduce(x, x, 1, datatype.Float32, datatype.Sum, nil)
		var failure *goccl.Error
		if !errors.As(err, &failure) {
			log.Fatal("no failure: ", err)
		}
		rest, err := comm.Shrink(context.Background(), []int{failure.Peer}, true)
		if err != nil {
			log.Fatal(err)
		}
		if err := rest.AllReduce(x, x, 1, datatype.Float32, datatype.Sum, nil); err != nil {
			log.Fatal(err)
		}
		if rest.Rank() == 0 {
			fmt.Printf("without rank %d the sum is %v\n", failure.Peer, get(rest.Device(), x, 1))
		}
		_ = rest.Finalize(context.Background()) // waits until all work is complete
		_ = rest.Close()
	})
	// Output: without rank 2 the sum is [2]
}

// With Check (or GOCCL_CHECK=1) ranks that call different operations get an error before data is touched.
func ExampleConfig_check() {
	var once sync.Mutex
	boots := bootstrap.NewLocalGroup(2)
	var wg sync.WaitGroup
	for r, boot := range boots {
		wg.Go(func() {
			dev, err := host.Open(r)
			if err != nil {
				log.Fatal(err)
			}
			comm, err := goccl.NewComm(context.Background(), goccl.Config{Bootstrap: boot, Device: dev, Check: true})
			if err != nil {
				log.Fatal(err)
			}
			x := put(dev, 1, 2)
			err = comm.AllReduce(x, x, int64(1+r), datatype.Float32, datatype.Sum, nil)
			once.Lock()
			if r == 0 {
				fmt.Println(errors.Is(err, goccl.ErrMismatch))
				fmt.Println(strings.ReplaceAll(err.Error(), ": ", ":\n"))
			}
			once.Unlock()
			_, _, _ = comm.Close(), boot.Close(), dev.Close()
		})
	}
	wg.Wait()
	// Output:
	// true
	// goccl:
	// all_reduce #1 on rank 0, peer 1:
	// ranks called different operations:
	// rank 1 calls all_reduce(sum) of 2 × float (its #1), this rank all_reduce(sum) of 1 × float
}
