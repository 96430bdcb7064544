package commtest

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
)

// HostsVariable, if it is set, divides the ranks of New among two hosts, in turn.
const HostsVariable = "GOCCL_TEST_TWO_HOSTS"

// New makes n ranks in this process, rank r on open(r); set, if it is not nil, changes the Config of a rank.
func New(t testing.TB, n int, open func(r int) (device.Device, error),
	set func(r int, cfg *goccl.Config)) []*goccl.Comm {
	t.Helper()
	hosts := make([]int, n)
	if s := setting.Get(HostsVariable); s != "" {
		for r := range hosts {
			hosts[r] = r % 2
		}
	}
	return NewOn(t, hosts, open, set)
}

// NewOn is New with rank r on a host of the number hosts[r].
func NewOn(t testing.TB, hosts []int, open func(r int) (device.Device, error),
	set func(r int, cfg *goccl.Config)) []*goccl.Comm {
	t.Helper()
	n, boots := len(hosts), bootstrap.NewLocalHosts(hosts).Ranks
	comms := make([]*goccl.Comm, n)
	devs := make([]device.Device, n)
	for r := range n {
		var err error
		if devs[r], err = open(r); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for r := range n {
			if comms[r] != nil {
				if err := comms[r].Close(); err != nil {
					t.Error(err)
				}
			}
			_, _ = boots[r].Close(), devs[r].Close()
		}
	})
	if err := Each(n, func(r int) (err error) {
		cfg := goccl.Config{Bootstrap: boots[r], Device: devs[r], OpTimeout: 20 * time.Second}
		if set != nil {
			set(r, &cfg)
		}
		comms[r], err = goccl.NewComm(context.Background(), cfg)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return comms
}

// Host opens the host device of rank r.
func Host(r int) (device.Device, error) { return host.Open(r) }

// RanksVariable is the number of ranks that GPUs returns: more than there are GPUs share them.
const RanksVariable = "GOCCL_TEST_RANKS"

// GPUs returns how many ranks to run and their devices: a rank for each GPU, at least two, or as RanksVariable says.
func GPUs(t testing.TB) (n int, open func(r int) (device.Device, error)) {
	t.Helper()
	if err := cuda.Available(); err != nil {
		t.Skip("no GPU: ", err)
	}
	gpus, err := cuda.Count()
	if err != nil {
		t.Fatal(err)
	}
	n = max(2, gpus)
	if s := setting.Get(RanksVariable); s != "" {
		if n, err = strconv.Atoi(s); err != nil || n < 1 {
			t.Fatalf("%s=%s is no number of ranks", RanksVariable, s)
		}
	}
	return n, func(r int) (device.Device, error) { return cuda.Open(r % gpus) }
}

// TwoGPUs makes a rank of this process on every GPU, if there are at least two.
func TwoGPUs(t *testing.T) []*goccl.Comm {
	t.Helper()
	n, open := GPUs(t)
	if gpus, err := cuda.Count(); err != nil || gpus < 2 {
		t.Skip("fewer than two GPUs: ", err)
	}
	return New(t, n, open, nil)
}

// OnKinds runs f with ranks of one process, on the host and, if there are GPUs, on them.
func OnKinds(t *testing.T, n int, f func(t *testing.T, n int, open func(r int) (device.Device, error))) {
	t.Run("host", func(t *testing.T) {
		NoLeak(t)
		f(t, n, Host)
	})
	t.Run("cuda", func(t *testing.T) {
		gpus, open := GPUs(t)
		f(t, min(n, gpus), open)
	})
}

// Each runs f for n ranks at once and joins their errors.
func Each(n int, f func(r int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() { errs[r] = f(r) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Scratch returns a rank's memory for requests that do not run, or whose result does not matter.
func Scratch(t testing.TB, c *goccl.Comm) device.Ptr {
	t.Helper()
	mem, err := c.Device().Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mem.Close() })
	return mem.Ptr()
}
