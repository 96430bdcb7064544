package contract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
	"github.com/goccl/goccl/test/mockcuda"
)

func each(t *testing.T, comms []*goccl.Comm, f func(c *goccl.Comm) error) {
	t.Helper()
	if err := commtest.Each(len(comms), func(r int) error { return f(comms[r]) }); err != nil {
		t.Fatal(err)
	}
}

// A suspended communicator refuses work, and after Resume works as before.
func TestSuspend(t *testing.T) {
	commtest.OnKinds(t, 3, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		comms := commtest.New(t, n, open, nil)
		for range 3 {
			for seed := range 5 {
				c := commtest.SomeCase
				c.Seed = uint64(seed)
				if err := conformance.Run(comms, c); err != nil {
					t.Fatal(err)
				}
			}
			each(t, comms, func(c *goccl.Comm) error { return c.Suspend(context.Background()) })
			for _, c := range comms {
				if m, err := c.Memory(); err != nil || !m.Suspended || m.Persistent == 0 {
					t.Errorf("%+v, %v", m, err)
				}
				if err := c.Barrier(nil); !errors.Is(err, goccl.ErrInvalidUsage) {
					t.Errorf("work while suspended: %v", err)
				}
				if err := c.Suspend(context.Background()); !errors.Is(err, goccl.ErrInvalidUsage) {
					t.Errorf("suspended twice: %v", err)
				}
			}
			each(t, comms, func(c *goccl.Comm) error { return c.Resume(context.Background()) })
		}
		if err := conformance.Run(comms, commtest.SomeCase); err != nil {
			t.Error(err)
		}
		if err := comms[0].Resume(context.Background()); !errors.Is(err, goccl.ErrInvalidUsage) {
			t.Errorf("resumed twice: %v", err)
		}
	})
}

// A rank that does not suspend, or resume, is named when the time has passed.
func TestSuspendLate(t *testing.T) {
	const n, late = 3, 1
	for _, resume := range []bool{false, true} {
		t.Run(fmt.Sprint("resume ", resume), func(t *testing.T) {
			comms := commtest.New(t, n, commtest.Host, func(_ int, cfg *goccl.Config) { cfg.Timeout = 2 * time.Second })
			call := (*goccl.Comm).Suspend
			if resume {
				each(t, comms, func(c *goccl.Comm) error { return c.Suspend(context.Background()) })
				call = (*goccl.Comm).Resume
			}
			each(t, comms, func(c *goccl.Comm) error {
				if c.Rank() == late {
					return nil
				}
				err := call(c, context.Background())
				var e *goccl.Error
				if !errors.As(err, &e) || !errors.Is(err, goccl.ErrTimeout) || e.Peer != late {
					return fmt.Errorf("rank %d: %w, want a timeout that names rank %d", c.Rank(), err, late)
				}
				return nil
			})
		})
	}
}

// On a GPU the memory of the arena is freed, and there is a new one after Resume.
func TestOnMockSuspend(t *testing.T) {
	comms := commtest.OnMock(t, 2, nil)
	trace, err := commtest.MockTrace()
	if err != nil {
		t.Fatal(err)
	}
	before, err := comms[0].Memory()
	if err != nil || before.Suspendable < 1<<20 || before.Suspended {
		t.Fatalf("%+v, %v", before, err)
	}
	each(t, comms, func(c *goccl.Comm) error { return c.Suspend(context.Background()) })
	each(t, comms, func(c *goccl.Comm) error { return c.Resume(context.Background()) })
	for _, c := range comms {
		s, p := commtest.MockStream(t, c), commtest.Scratch(t, c)
		trace.Start()
		err := c.AllReduce(p, p, 256, datatype.Float32, datatype.Sum, s)
		calls, terr := trace.Stop()
		if err := errors.Join(err, terr); err != nil {
			t.Fatal(err)
		}
		launched := 0
		for _, n := range calls {
			if n.Kind == mockcuda.Launch {
				launched++
			}
		}
		if launched != 1 {
			t.Errorf("%d launches after Resume", launched)
		}
	}
}

// Memory is what communicators take of the driver: the first less than 64 MiB, each further one as much as Memory says.
// Closed ones leave nothing.
func TestOnMockMemory(t *testing.T) {
	const n = 4
	commtest.NeedMock(t)
	d, err := cuda.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = d.Close() }()
	used := func() int64 {
		free, total, err := d.MemoryInfo()
		if err != nil {
			t.Fatal(err)
		}
		return total - free
	}
	before := used()
	t.Run("open", func(t *testing.T) {
		last := before
		for i := range 8 {
			comms := commtest.OnMock(t, n, nil)
			m, err := comms[0].Memory()
			if err != nil {
				t.Fatal(err)
			}
			took := used() - last
			if last = used(); took != roundUp(m.Suspendable)+roundUp(m.Persistent) || took > 64<<20 {
				t.Errorf("communicator %d takes %d bytes; %+v", i, took, m)
			}
		}
		t.Logf("a communicator of %d ranks takes %d KiB", n, (last-before)/8>>10)
	})
	if left := used() - before; left != 0 {
		t.Errorf("%d bytes are left", left)
	}
}

// roundUp is the size of memory in pages of a GPU.
func roundUp(n int64) int64 { return (n + 2<<20 - 1) &^ (2<<20 - 1) }

// sharedMappings lists the mappings of shared memory of this process, with their addresses and files.
func sharedMappings(t *testing.T) string {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "/memfd:goccl") {
			list.WriteString(line)
		}
	}
	return list.String()
}

// On the host device everything keeps its address and its bytes while the communicator is suspended: arenas, windows,
// and the parts of peers in flat windows. What was computed from these addresses before works after Resume.
func TestSuspendKeepsAddresses(t *testing.T) {
	const n, size, rounds = 3, 1 << 16, 100
	comms := commtest.New(t, n, commtest.Host, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = commtest.Soon })
	mem, flats, windows := make([]device.Ptr, n), make([]*goccl.FlatWindow, n), make([]*goccl.Window, n)
	puts := make([][n]device.Ptr, n) // where rank r puts into the part of each rank, as it was before the first Suspend
	id := goccl.SignalID{Context: 3, Index: 4}
	each(t, comms, func(c *goccl.Comm) (err error) {
		a, err := c.Device().Alloc(2 * n * size)
		if err != nil {
			return err
		}
		r := c.Rank()
		t.Cleanup(func() { _ = a.Close() })
		mem[r] = a.Ptr()
		if flats[r], err = c.RegisterFlat(mem[r], n*size); err != nil {
			return err
		}
		if windows[r], err = c.RegisterWindow(mem[r].Add(n*size), n*size); err != nil {
			return err
		}
		return flats[r].Await()
	})
	for r, w := range flats {
		for p := range n {
			puts[r][p] = w.Base().Add(int64(p)*w.Stride() + int64(r)*size)
		}
	}
	before := ""
	for round := range rounds {
		if round == 1 { // now everything has been mapped
			before = sharedMappings(t)
		}
		each(t, comms, func(c *goccl.Comm) error { return c.Suspend(context.Background()) })
		suspended := sharedMappings(t)
		each(t, comms, func(c *goccl.Comm) error { return c.Resume(context.Background()) })
		after := sharedMappings(t)
		if round > 0 && (before == "" || suspended != before || after != before) {
			t.Fatalf("round %d: mappings were\n%sthen, while suspended\n%sand after Resume\n%s", round, before, suspended, after)
		}
		each(t, comms, func(c *goccl.Comm) error {
			r, own := c.Rank(), windows[c.Rank()].Ptr()
			src := own.Add(int64(r) * size)
			err := c.Device().CopyIn(src, []byte{byte(round), byte(r)})
			var waits []goccl.SignalWait
			for p := range n { // a store to an old address, and a put with a signal, into each rank's part
				err = errors.Join(err, c.Device().CopyIn(puts[r][p], []byte{byte(round), byte(r)}),
					c.PutSignal(flats[r], int64(r)*size+2, src, 2, p, id, nil))
				waits = append(waits, goccl.SignalWait{Peer: p, ID: id, Count: 1})
			}
			if err = errors.Join(err, c.WaitSignal(waits, nil), c.AllGather(src, own, size, datatype.Int8, nil),
				c.Synchronize(context.Background(), nil)); err != nil {
				return err
			}
			for p := range n {
				got := make([]byte, 6)
				if err := errors.Join(c.Device().CopyOut(got[:4], mem[r].Add(int64(p)*size)),
					c.Device().CopyOut(got[4:], own.Add(int64(p)*size))); err != nil {
					return err
				}
				if want := bytes.Repeat([]byte{byte(round), byte(p)}, 3); !bytes.Equal(got, want) {
					return fmt.Errorf("round %d, rank %d: rank %d has left %v, want %v", round, r, p, got, want)
				}
			}
			return nil
		})
	}
	if err := conformance.Run(comms, commtest.SomeCase); err != nil {
		t.Error(err)
	}
}
