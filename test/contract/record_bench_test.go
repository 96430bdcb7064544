package contract_test

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/commtest"
)

// BenchmarkRecorder runs all-reduces of 1 KB between two ranks, in turns with and without the flight recorder. It
// reports the median of the turns: time, and processor time of both ranks together, which a loaded machine changes
// less.
func BenchmarkRecorder(b *testing.B) {
	const batch = 500
	var run [2]func()
	for on := range run {
		b.Setenv("GOCCL_RECORD", []string{"0", "512"}[on])
		comms := commtest.New(b, 2, commtest.Host, nil)
		var mem [2]device.Allocation
		var streams [2]device.Stream
		for r, c := range comms {
			var err error
			if mem[r], err = c.Device().Alloc(1024); err != nil {
				b.Fatal(err)
			}
			if streams[r], err = c.Device().NewStream(); err != nil {
				b.Fatal(err)
			}
		}
		run[on] = func() {
			var wg sync.WaitGroup
			for r, c := range comms {
				wg.Go(func() { sums(b, c, mem[r], streams[r], batch) })
			}
			wg.Wait()
		}
	}
	var wall, cpu [2][]float64
	for b.Loop() {
		for on := range run {
			begin, used := time.Now(), processorTime()
			run[on]()
			wall[on] = append(wall[on], float64(time.Since(begin).Nanoseconds())/batch)
			cpu[on] = append(cpu[on], float64(processorTime()-used)/batch)
		}
	}
	median := func(x []float64) float64 {
		slices.Sort(x)
		return x[len(x)/2]
	}
	for on, name := range []string{"off", "on"} {
		b.ReportMetric(median(wall[on]), name+"-ns")
		b.ReportMetric(median(cpu[on]), name+"-cpu-ns")
	}
}

func sums(b *testing.B, c *goccl.Comm, mem device.Allocation, s device.Stream, n int) {
	for range n {
		if err := c.AllReduce(mem.Ptr(), mem.Ptr(), 256, datatype.Float32, datatype.Sum, s); err != nil {
			b.Error(err)
			return
		}
	}
	if err := c.Synchronize(context.Background(), s); err != nil {
		b.Error(err)
	}
}

func processorTime() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}
