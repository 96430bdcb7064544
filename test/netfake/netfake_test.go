package netfake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/test/nettest"
	"github.com/goccl/goccl/transport"
)

func TestNet(t *testing.T) {
	nettest.Run(t, nettest.Config{OneProcess: true, Max: 2 << 20, Net: func(t testing.TB) transport.Net {
		f := New(Options{Seed: 7, Repeat: 0.3, Slow: 0.5})
		t.Cleanup(f.Close)
		return f.Net("host")
	}})
}

const (
	slotBytes = 1 << 10
	slots     = 2
)

// pipeline sends n blocks from one host to another through slots with credits. With early the sender changes a
// slot as soon as its put has begun.
func pipeline(t testing.TB, f *Fabric, n int, early bool) error {
	x, y := nettest.Join(t, nettest.Open(t, f.Net("a")), nettest.Open(t, f.Net("b")), slots*slotBytes)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const data, credit = 1, 2
	errs := make([]error, 2)
	var all sync.WaitGroup
	all.Go(func() {
		done := make([]chan struct{}, slots)
		for i := range n {
			s := i % slots
			if i >= slots {
				if err := x.Wait(ctx, credit+uint32(s), uint64(i/slots)); err != nil {
					errs[0] = err
					return
				}
				if !early {
					<-done[s]
				}
			}
			at := int64(s * slotBytes)
			copy(x.Out[at:], bytes.Repeat([]byte{byte(i + 1)}, slotBytes))
			end := make(chan struct{})
			done[s] = end
			errs[0] = x.Put(x.Src, at, x.Dst, at, slotBytes, 100+uint32(s), func(error) { close(end) })
			if errs[0] != nil {
				return
			}
			if early {
				clear(x.Out[at : at+slotBytes/2])
			}
		}
		errs[0] = x.Flush(ctx)
	})
	all.Go(func() {
		defer func() {
			if errs[1] != nil {
				_ = y.Close() // the sender waits for credit
			}
		}()
		for i := range n {
			s := i % slots
			if errs[1] = y.Wait(ctx, 100+uint32(s), uint64(i/slots+1)); errs[1] != nil {
				return
			}
			got := y.In[s*slotBytes : (s+1)*slotBytes]
			for _, b := range got {
				if b != byte(i+1) {
					errs[1] = fmt.Errorf("%w: block %d has a byte of %d", errWrong, i, b-1)
					return
				}
			}
			if errs[1] = y.Put(nil, 0, y.Dst, 0, 0, credit+uint32(s), nil); errs[1] != nil {
				return
			}
		}
		errs[1] = y.Flush(ctx)
	})
	all.Wait()
	return errors.Join(errs...)
}

var errWrong = errors.New("wrong bytes")

func faults(seed uint64, o *Options) {
	o.Repeat, o.Slow = float64(seed%4)/4, float64(seed%3)/3
	switch seed % 5 {
	case 1:
		o.Break = int(seed%37) + 1
	case 2:
		o.Die = int(seed%41) + 1
	}
}

// A correct user gets right bytes or ErrPeerGone, whatever the seed, and never hangs.
func TestSchedules(t *testing.T) {
	Schedules(t, 400, faults, func(t testing.TB, f *Fabric) {
		err := pipeline(t, f, 12, false)
		broken := f.opt.Break+f.opt.Die > 0
		if err != nil && (!broken || !errors.Is(err, transport.ErrPeerGone)) || errors.Is(err, errWrong) {
			t.Error(err)
		}
	})
}

// A user that breaks a rule is found out by some seed.
func TestMistakesAreFound(t *testing.T) {
	found := 0
	for seed := range uint64(40) {
		f := New(Options{Seed: seed, Repeat: 0.5})
		if errors.Is(pipeline(t, f, 12, true), errWrong) {
			found++
		}
		f.Close()
	}
	if found == 0 {
		t.Error("no seed finds a source that is changed before done")
	}
}

// trace runs a user with one goroutine and returns the order of arrivals.
func trace(t testing.TB, seed uint64) string {
	f := New(Options{Seed: seed, Repeat: 0.2})
	defer f.Close()
	x, y := nettest.Join(t, nettest.Open(t, f.Net("a")), nettest.Open(t, f.Net("b")), 4096)
	var mu sync.Mutex
	var order []uint32
	for imm := range uint32(30) {
		y.OnArrival(imm, func(uint64) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, imm)
		})
	}
	f.mu.Lock() // all puts are known before the first step
	f.paused = true
	f.mu.Unlock()
	for imm := range uint32(30) {
		if err := x.Put(x.Src, 0, x.Dst, int64(imm)*64, 64, imm, nil); err != nil {
			t.Fatal(err)
		}
	}
	f.mu.Lock()
	f.paused = false
	f.wake.Signal()
	f.mu.Unlock()
	if err := x.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return fmt.Sprint(order)
}

func TestASeedReproduces(t *testing.T) {
	one, again, other := trace(t, 5), trace(t, 5), trace(t, 6)
	if one != again {
		t.Errorf("the same seed:\n%s\n%s", one, again)
	}
	if one == other {
		t.Error("two seeds, one order")
	}
	if one == fmt.Sprint(sorted(30)) {
		t.Error("nothing is reordered")
	}
}

func sorted(n uint32) (all []uint32) {
	for i := range n {
		all = append(all, i)
	}
	return all
}
