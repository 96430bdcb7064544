package share

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/internal/fdshare"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport/wire"
)

// each runs f for every rank at once and returns the errors by rank.
func each(n int, f func(r int, b bootstrap.Bootstrap) error) []error {
	errs := make([]error, n)
	var ranks sync.WaitGroup
	for r, b := range bootstrap.NewLocalGroup(n) {
		ranks.Go(func() { errs[r] = f(r, b) })
	}
	ranks.Wait()
	return errs
}

// Every rank writes into the arenas of all, and sees what all have written.
func TestArena(t *testing.T) {
	const n = 4
	before := Mapped()
	if err := errors.Join(each(n, func(r int, b bootstrap.Bootstrap) error {
		a, err := NewArena(t.Context(), b, open(t), 4096)
		if err != nil {
			return err
		}
		for p := range n {
			if a.Ptr[p] == 0 || !a.SameProcess[p] {
				return fmt.Errorf("part %d: %#x, %v", p, a.Ptr[p], a.SameProcess[p])
			}
			device.Bytes(a.Ptr[p], 4096)[r] = byte(1 + r)
		}
		if err := b.Barrier(t.Context()); err != nil {
			return err
		}
		if got := device.Bytes(a.Ptr[r], n); !bytes.Equal(got, []byte{1, 2, 3, 4}) {
			return fmt.Errorf("rank %d has %v", r, got)
		}
		return errors.Join(b.Barrier(t.Context()), a.Close())
	})...); err != nil {
		t.Fatal(err)
	}
	if got := Mapped(); got != before {
		t.Errorf("%d mappings are left", got-before)
	}
}

// Size 0 shares the whole allocations, which may differ in size.
func TestExchangeOfAllocations(t *testing.T) {
	const n = 3
	if err := errors.Join(each(n, func(r int, b bootstrap.Bootstrap) error {
		d := open(t)
		p := alloc(t, d, int64(1+r)<<16)
		copy(device.Bytes(p, 1), []byte{byte(10 + r)})
		all, err := Exchange(t.Context(), b, d, p.Add(100*int64(1+r)), 0)
		if err != nil {
			return err
		}
		if all.Ptr[r] != p || all.Size != int64(1+r)<<16 {
			return fmt.Errorf("rank %d has %d bytes at %#x, want %#x", r, all.Size, all.Ptr[r], p)
		}
		for q := range n {
			if got := device.Bytes(all.Ptr[q], 1)[0]; got != byte(10+q) {
				return fmt.Errorf("rank %d's memory begins with %d", q, got)
			}
		}
		return errors.Join(b.Barrier(t.Context()), all.Close())
	})...); err != nil {
		t.Fatal(err)
	}
}

// Errors name the ranks of a host's group as errors of the whole communicator do: the bootstrap knows their numbers.
func TestExchangeBlamesByNameOfBootstrap(t *testing.T) {
	hosts := bootstrap.NewLocalHosts([]int{7, 7, 3, 3}).Ranks
	errs := make([]error, 4)
	var ranks sync.WaitGroup
	for r, b := range hosts {
		ranks.Go(func() {
			group, err := bootstrap.SplitByHost(t.Context(), b)
			if err != nil {
				errs[r] = err
				return
			}
			defer func() { _ = group.Close() }()
			bootstrap.NameAsAbove(group, true)
			_, errs[r] = NewArena(t.Context(), group, failing{Device: open(t), imports: r == 3}, 4096)
		})
	}
	ranks.Wait()
	for r, want := range []int{-1, -1, 3, 2} {
		if e := fault.PartOf(errs[r], Part); fault.PeerOf(errs[r]) != want ||
			e != nil && !strings.Contains(e.Error(), fmt.Sprintf("rank %d", want)) {
			t.Errorf("rank %d: %v, want rank %d to blame", r, errs[r], want)
		}
	}
}

// failing is a device on which one step fails.
type failing struct {
	device.Device
	alloc, exports, imports bool
	gone                    bool // imports fail because the other process is gone
}

var errRefused = fmt.Errorf("refused by the test: %w", device.ErrOutOfMemory)

func (f failing) Alloc(n int64) (device.Allocation, error) {
	if f.alloc {
		return nil, errRefused
	}
	return f.Device.Alloc(n)
}

func (f failing) Export(p device.Ptr) (device.Handle, error) {
	if f.exports {
		return device.Handle{}, errRefused
	}
	return f.Device.Export(p)
}

func (f failing) Import(h device.Handle) (device.Allocation, error) {
	switch {
	case f.gone:
		return nil, fmt.Errorf("%w: %w", errRefused, fdshare.ErrGone)
	case f.imports:
		return nil, errRefused
	}
	return f.Device.Import(h)
}

// A rank that cannot allocate or map fails all ranks at once, whose errors name it and say why. If it finds that a
// process is gone, they name that rank, except the one that is still there. Nothing stays mapped.
func TestExchangeFailsEverywhere(t *testing.T) {
	const n, bad = 4, 2
	for name, c := range map[string]struct {
		dev   failing
		blame int // by the failing rank itself
	}{"alloc": {failing{alloc: true}, -1}, "import": {failing{imports: true}, 0}, "gone": {failing{gone: true}, 0}} {
		t.Run(name, func(t *testing.T) {
			before := Mapped()
			for r, err := range each(n, func(r int, b bootstrap.Bootstrap) error {
				dev := failing{Device: open(t)}
				if r == bad {
					dev.alloc, dev.imports, dev.gone = c.dev.alloc, c.dev.imports, c.dev.gone
				}
				_, err := NewArena(t.Context(), b, dev, 4096)
				return err
			}) {
				want := bad
				if r == bad || c.dev.gone && r != 0 {
					want = c.blame
				}
				if err == nil || fault.PeerOf(err) != want || !strings.Contains(err.Error(), errRefused.Error()) ||
					!errors.Is(err, device.ErrOutOfMemory) || errors.Is(err, errRefused) != (r == bad) {
					t.Errorf("rank %d blames %d: %v", r, fault.PeerOf(err), err)
				}
			}
			if got := Mapped(); got != before {
				t.Errorf("%d mappings are left", got-before)
			}
		})
	}
}

// A verdict that names no third rank blames its sender.
func TestVerdictOfUnknownRank(t *testing.T) {
	boots := bootstrap.NewLocal(3).Ranks
	x := &exchange{boot: boots[0], rank: 0, size: 3}
	for named, want := range map[int]int{2: 2, 1: 1, 0: 1, -1: 1, 3: 1, 1 << 30: 1} {
		var w wire.Writer
		putReason(&w, blame(named, "%w", fdshare.ErrGone))
		if err := x.verdict(1, w.Seal(recordKind, recordVersion)); fault.PeerOf(err) != want {
			t.Errorf("rank %d is named: blames %d, want %d: %v", named, fault.PeerOf(err), want, err)
		}
	}
}

// Records of peers are not trusted.
func TestExchangeRefusesRecords(t *testing.T) {
	d := open(t)
	record := func(size uint64, change func(*Descriptor)) []byte {
		desc, revoke, err := Export(d, alloc(t, d, 4096))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(revoke)
		change(&desc)
		var w wire.Writer
		w.U64(size)
		w.Bytes(nil)
		desc.Put(&w)
		return w.Seal(recordKind, recordVersion)
	}
	for name, c := range map[string]struct {
		record []byte
		want   string
	}{
		"junk":           {[]byte("junk, and more of it"), "magic"},
		"nothing":        {nil, "too few"},
		"beyond the end": {record(4097, func(*Descriptor) {}), "ends before"},
		"negative":       {record(1<<63, func(*Descriptor) {}), "ends before"},
		"handle type":    {record(1, func(d *Descriptor) { d.Handle.Type = 9 }), "handle type"},
		"offset":         {record(1, func(d *Descriptor) { d.Handle.Offset = 4096 }), "offset"},
	} {
		x := &exchange{dev: d, rank: 0, size: 2}
		x.gather = func(_ context.Context, _ int, own []byte) ([][]byte, error) { return [][]byte{own, c.record}, nil }
		if _, err := x.run(t.Context(), offer(d, alloc(t, d, 4096), 4096, nil)); !errors.Is(err, fault.ErrMismatch) ||
			fault.PeerOf(err) != 1 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
