package soak_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
	"github.com/goccl/goccl/test/leak"
)

func TestManyCommunicators(t *testing.T) {
	commtest.NoLeak(t)
	const n, many = 2, 24
	boots := bootstrap.NewLocalGroup(n)
	all := make([][]*goccl.Comm, many)
	for i := range all {
		all[i] = make([]*goccl.Comm, n)
	}
	var devs [n]device.Device
	if err := commtest.Each(n, func(r int) (err error) {
		if devs[r], err = commtest.Host(r); err != nil {
			return err
		}
		for i := range all {
			if all[i][r], err = goccl.NewComm(context.Background(),
				goccl.Config{Bootstrap: boots[r], Device: devs[r]}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := commtest.Each(many, func(i int) error {
		c := commtest.SomeCase
		c.Seed = uint64(i)
		return conformance.Run(all[i], c)
	}); err != nil {
		t.Error(err)
	}
	for r := range n {
		_ = boots[r].Close() // communicators work without it
	}
	if err := conformance.Run(all[3], commtest.SomeCase); err != nil {
		t.Error(err)
	}
	for i := range all {
		for r := range n {
			if err := all[i][r].Close(); err != nil {
				t.Error(err)
			}
		}
	}
	for r := range n {
		_ = devs[r].Close()
	}
}

// Communicators, one after the other, leak no descriptor, goroutine, mapping or heap memory: 150, or with GOCCL_FULL=1
// a thousand.
func TestCreateAndClose(t *testing.T) {
	rounds := 150
	if os.Getenv("GOCCL_FULL") != "" {
		rounds = 1000
	}
	const n = 2
	commtest.NoLeak(t)
	boots := bootstrap.NewLocalGroup(n)
	var devs [n]device.Device
	for r := range n {
		var err error
		if devs[r], err = commtest.Host(r); err != nil {
			t.Fatal(err)
		}
	}
	some := func(rounds int) {
		if err := commtest.Each(n, func(r int) error {
			for i := range rounds {
				c, err := goccl.NewComm(context.Background(),
					goccl.Config{Bootstrap: boots[r], Device: devs[r], OpTimeout: 20 * time.Second})
				if err != nil {
					return fmt.Errorf("round %d: %w", i, err)
				}
				if err := c.Barrier(nil); err != nil {
					return fmt.Errorf("round %d: %w", i, err)
				}
				if i%10 == 0 {
					s, err := c.Split(context.Background(), 0, 0)
					if err != nil {
						return fmt.Errorf("round %d: %w", i, err)
					}
					if err := s.Close(); err != nil {
						return err
					}
				}
				if err := c.Close(); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	some(20)
	before, base := heap(), leak.Held()
	start := time.Now()
	some(rounds)
	took := time.Since(start)
	if r := leak.Settled(base); r.More(base) {
		t.Errorf("after %d rounds: %v, before %v\n%s", rounds, r, base, r.Detail)
	}
	// The bootstrap remembers the last 4096 groups that were closed.
	if after := heap(); after > before+1<<20 {
		t.Errorf("%d rounds keep %d KiB of heap", rounds, (after-before)>>10)
	}
	t.Logf("%d communicators of %d ranks made, used and closed: %v each", rounds, n, took/time.Duration(rounds))
	for r := range n {
		_, _ = boots[r].Close(), devs[r].Close()
	}
}
