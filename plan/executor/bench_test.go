package executor_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan/programs"
)

// BenchmarkHostAllReduce compares plans with the host engine's own all-reduce, in one process: the time of one call,
// all ranks in lock-step.
func BenchmarkHostAllReduce(b *testing.B) {
	for _, n := range []int{2, 8} {
		for _, size := range []int64{1 << 10, 64 << 10, 1 << 20, 8 << 20} {
			for _, algo := range []string{"", "allreduce_oneshot_ll", "allreduce_twoshot_ll", "allreduce_direct"} {
				name := algo
				if name == "" {
					name = "engine"
				}
				b.Run(fmt.Sprintf("%d/%d/%s", n, size, name), func(b *testing.B) { hostAllReduce(b, n, size, algo) })
			}
		}
	}
}

func hostAllReduce(b *testing.B, n int, size int64, algo string) {
	boots := bootstrap.NewLocalGroup(n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			dev, err := host.Open(r)
			if err != nil {
				b.Error(err)
				return
			}
			defer func() { _ = dev.Close() }()
			c, err := goccl.NewComm(context.Background(),
				goccl.Config{Bootstrap: boots[r], Device: dev, OpTimeout: 20 * time.Second})
			if err != nil {
				b.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			if algo != "" {
				p, err := programs.Build(algo, programs.Options{Ranks: n, Instances: 1})
				if err == nil {
					err = c.RegisterPlan(context.Background(), p)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
			send, err1 := dev.Alloc(size)
			recv, err2 := dev.Alloc(size)
			s, err3 := dev.WrapStream(0)
			if err1 != nil || err2 != nil || err3 != nil {
				b.Error(err1, err2, err3)
				return
			}
			call(b, c, send, recv, size, s)
			if r == 0 {
				b.SetBytes(size)
				b.ResetTimer()
			}
			for range b.N {
				call(b, c, send, recv, size, s)
			}
			if r == 0 {
				b.StopTimer()
			}
			_ = c.Finalize(context.Background())
		})
	}
	wg.Wait()
}

func call(b *testing.B, c *goccl.Comm, send, recv device.Allocation, size int64, s device.Stream) {
	if err := c.AllReduce(send.Ptr(), recv.Ptr(), size/4, datatype.Float32, datatype.Sum, s); err != nil {
		b.Error(err)
	}
}
