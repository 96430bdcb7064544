package shm_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/engine/shm"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
)

// BenchmarkAllReduce measures one operation in a sequence on one stream per rank, as a training step enqueues them.
func BenchmarkAllReduce(b *testing.B) {
	for _, ranks := range []int{2, 8} {
		for _, bytes := range []int64{8, 1 << 10, 32 << 10, 1 << 20, 64 << 20} {
			b.Run(fmt.Sprintf("ranks=%d/bytes=%d", ranks, bytes), func(b *testing.B) {
				b.SetBytes(bytes)
				ends := make([]*end, ranks)
				boots := bootstrap.NewLocalGroup(ranks)
				each(b, ranks, func(r int) error {
					var err error
					ends[r], err = open(boots[r], bytes)
					return err
				})
				b.ResetTimer()
				each(b, ranks, func(r int) error { return ends[r].run(b.N, bytes) })
				b.StopTimer()
				each(b, ranks, func(r int) error { return ends[r].close() })
			})
		}
	}
}

// end is one rank.
type end struct {
	boot   bootstrap.Bootstrap
	dev    device.Device
	engine *shm.Engine
	stream device.Stream
	mem    [2]device.Allocation
	seq    uint64
}

func open(boot bootstrap.Bootstrap, bytes int64) (*end, error) {
	dev, err := host.Open(0)
	if err != nil {
		return nil, err
	}
	e := &end{boot: boot, dev: dev}
	for i := range e.mem {
		if e.mem[i], err = dev.Alloc(bytes); err != nil {
			return nil, err
		}
	}
	if e.stream, err = dev.NewStream(); err != nil {
		return nil, err
	}
	e.engine, err = shm.New(context.Background(), shm.Config{Job: collective.Job{Bootstrap: boot, Device: dev,
		OpTimeout: time.Minute, Settings: &setting.Config{Algorithms: os.Getenv("GOCCL_ALGO")}}})
	return e, err
}

func (e *end) run(n int, bytes int64) error {
	r := []collective.Request{{Collective: collective.AllReduce, Send: e.mem[0].Ptr(), Recv: e.mem[1].Ptr(),
		Count: bytes / 4, Type: datatype.Float32, Stream: e.stream}}
	for k := range n {
		e.seq++
		if err := e.engine.Enqueue(e.seq, r); err != nil {
			return err
		}
		if k%100 != 99 && k != n-1 {
			continue
		}
		if err := e.stream.Synchronize(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

func (e *end) close() error {
	if err := e.boot.Barrier(context.Background()); err != nil {
		return err
	}
	err := e.engine.Close()
	for _, m := range e.mem {
		_ = m.Close()
	}
	_ = e.stream.Close()
	_ = e.dev.Close()
	return err
}

func each(tb testing.TB, n int, f func(r int) error) {
	tb.Helper()
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			if err := f(r); err != nil {
				tb.Errorf("rank %d: %v", r, err)
			}
		})
	}
	wg.Wait()
	if tb.Failed() {
		tb.FailNow()
	}
}
