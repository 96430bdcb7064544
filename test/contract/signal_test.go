package contract_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
)

// Each rank puts values into the next rank's part and signals; all of the data is there when the wait has ended, many
// times, in sizes that a block, a cluster of blocks and the copy engine copy.
func TestPutSignal(t *testing.T) {
	const most, rounds = 8 << 20, 100
	commtest.OnKinds(t, 3, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		comms := commtest.New(t, n, open, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = commtest.Soon })
		each(t, comms, func(c *goccl.Comm) error {
			mem, err := c.Device().Alloc(2 * most)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = mem.Close() })
			// Ranks on one GPU share its default stream, where the wait of one keeps the other's signal back.
			s, err := c.Device().NewStream()
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = s.Close() })
			w, err := c.RegisterFlat(mem.Ptr(), most)
			if err == nil {
				err = w.Await()
			}
			if err != nil {
				return err
			}
			from, to := (c.Rank()+n-1)%n, (c.Rank()+1)%n
			id, src := goccl.SignalID{Context: 1, Index: 2}, mem.Ptr().Add(most)
			data, got := make([]byte, most), make([]byte, most)
			for i := range rounds {
				size := []int64{8, 1000, 65536, 70001, 1 << 20, 4<<20 - 7, 5<<20 + 3, most}[i%8]
				fill(data[:size], i*10+c.Rank())
				if err := errors.Join(c.Device().CopyIn(src, data[:size]), c.PutSignal(w, most-size, src, size, to, id, s),
					c.WaitSignal([]goccl.SignalWait{{Peer: from, ID: id, Count: 1}}, s),
					c.Synchronize(context.Background(), s), c.Device().CopyOut(got[:size], mem.Ptr().Add(most-size))); err != nil {
					return err
				}
				if fill(data[:size], i*10+from); !bytes.Equal(got[:size], data[:size]) {
					return fmt.Errorf("rank %d, round %d: wrong bytes in %d", c.Rank(), i, size)
				}
				// The answer keeps the sender from overwriting what was not read.
				if err := errors.Join(c.Signal(from, goccl.SignalID{}, s),
					c.WaitSignal([]goccl.SignalWait{{Peer: to, Count: 1}}, s)); err != nil {
					return err
				}
			}
			if err := c.PutSignal(w, most-6, src, 8, to, id, s); !errors.Is(err, goccl.ErrInvalidArgument) {
				t.Errorf("beyond the window: %v", err)
			}
			if err := c.Signal(n, id, s); !errors.Is(err, goccl.ErrInvalidArgument) {
				t.Errorf("a rank that does not exist: %v", err)
			}
			waits := []goccl.SignalWait{{Peer: from, ID: id, Count: 1<<32 + 1}}
			if err := c.WaitSignal(waits, s); !errors.Is(err, goccl.ErrInvalidArgument) {
				t.Errorf("more signals than a kernel counts: %v", err)
			}
			// Parts may differ in size: what counts is the receiver's.
			own, theirs := 64*int64(c.Rank()+1), 64*int64(to+1)
			if w, err = c.RegisterFlat(mem.Ptr(), own); err == nil {
				err = w.Await()
			}
			if err != nil {
				return err
			}
			if err := c.PutSignal(w, theirs-4, src, 8, to, id, s); !errors.Is(err, goccl.ErrInvalidArgument) {
				t.Errorf("beyond the part of rank %d: %v", to, err)
			}
			return errors.Join(c.PutSignal(w, theirs-8, src, 8, to, id, s),
				c.WaitSignal([]goccl.SignalWait{{Peer: from, ID: id, Count: 1}}, s), c.Synchronize(context.Background(), s))
		})
		// A wait without a signal ends with an abort.
		done := make(chan error)
		go func() {
			err := comms[0].WaitSignal([]goccl.SignalWait{{Peer: n - 1, Count: 1}}, nil)
			done <- errors.Join(err, comms[0].Synchronize(context.Background(), nil))
		}()
		time.Sleep(10 * time.Millisecond)
		comms[0].Abort(nil)
		select {
		case err := <-done:
			if !errors.Is(err, goccl.ErrAborted) {
				t.Errorf("a wait that was aborted: %v", err)
			}
		case <-time.After(commtest.Soon):
			t.Error("the wait does not end")
		}
	})
}

// Large puts of two streams at a time, at odd addresses, eager and in graphs that are launched again and again, arrive
// before their signals. An abort ends a put whose stream waits in vain.
func TestPutSignalOfStreams(t *testing.T) {
	const streams, rounds, size, stride = 2, 24, 6<<20 + 5, 8 << 20
	n, open := commtest.GPUs(t)
	comms := commtest.New(t, n, open, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = commtest.Soon })
	each(t, comms, func(c *goccl.Comm) error {
		mem, err := c.Device().Alloc(2 * streams * stride)
		if err != nil {
			return err
		}
		t.Cleanup(func() { _ = mem.Close() })
		w, err := c.RegisterFlat(mem.Ptr(), streams*stride)
		if err == nil {
			err = w.Await()
		}
		from, to := (c.Rank()+n-1)%n, (c.Rank()+1)%n
		var all [streams]*cuda.Stream
		var graphs [streams]*cuda.Exec
		at := func(i int) int64 { return int64(i)*stride + 3 }
		src := func(i int) device.Ptr { return mem.Ptr().Add(streams*stride + at(i) + int64(i)) }
		exchange := func(i int) error {
			id := goccl.SignalID{Context: 2, Index: i}
			return errors.Join(c.PutSignal(w, at(i), src(i), size, to, id, all[i]),
				c.WaitSignal([]goccl.SignalWait{{Peer: from, ID: id, Count: 1}}, all[i]))
		}
		for i := range streams {
			if err == nil {
				all[i], err = commtest.GPUStream(c)
			}
			if err == nil {
				s := all[i]
				t.Cleanup(func() { _ = s.Close() })
				graphs[i], err = commtest.Capture(s, cuda.CaptureThreadLocal, func() error { return exchange(i) })
			}
		}
		if err != nil {
			return err
		}
		data, got := make([]byte, size), make([]byte, size)
		for round := range rounds {
			for i, s := range all {
				fill(data, round*100+i*10+c.Rank())
				err := c.Device().CopyIn(src(i), data)
				if round%3 == 1 {
					err = errors.Join(err, graphs[i].Launch(s))
				} else {
					err = errors.Join(err, exchange(i))
				}
				if err != nil {
					return err
				}
			}
			for i, s := range all {
				err := errors.Join(c.Synchronize(context.Background(), s), c.Device().CopyOut(got, mem.Ptr().Add(at(i))))
				if fill(data, round*100+i*10+from); err != nil || !bytes.Equal(got, data) {
					return fmt.Errorf("rank %d, round %d, stream %d: wrong bytes, %v", c.Rank(), round, i, err)
				}
			}
			if err := errors.Join(c.Signal(from, goccl.SignalID{}, all[0]),
				c.WaitSignal([]goccl.SignalWait{{Peer: to, Count: 1}}, all[0]),
				c.Synchronize(context.Background(), all[0])); err != nil {
				return err
			}
		}
		for _, x := range graphs {
			if err := x.Close(); err != nil {
				return err
			}
		}
		if c.Rank() != 0 {
			return c.Finalize(context.Background())
		}
		err = errors.Join(c.WaitSignal([]goccl.SignalWait{{Peer: from, Count: 1}}, all[0]), exchange(0))
		c.Abort(nil)
		if err != nil {
			return err
		}
		if err := c.Synchronize(context.Background(), all[0]); !errors.Is(err, goccl.ErrAborted) {
			return fmt.Errorf("a put that was aborted: %v", err)
		}
		return c.Close()
	})
}

// fill repeats a value, and then as much of it as there is room for.
func fill(b []byte, value int) {
	var word [8]byte
	binary.NativeEndian.PutUint64(word[:], uint64(value))
	for n := copy(b, word[:]); n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// A wait that outlasts the deadline of an operation fails and names the peer.
func TestWaitSignalTimeout(t *testing.T) {
	commtest.OnKinds(t, 2, func(t *testing.T, n int, open func(r int) (device.Device, error)) {
		if n < 2 {
			t.Skip("a rank alone")
		}
		comms := commtest.New(t, n, open, func(_ int, cfg *goccl.Config) { cfg.OpTimeout = 200 * time.Millisecond })
		mem := func(r int) device.Ptr { return commtest.Scratch(t, comms[r]) }
		if _, errs := flat(comms, mem, func(int) int64 { return 64 }); errors.Join(errs...) != nil {
			t.Fatal(errs)
		}
		err := comms[1].WaitSignal([]goccl.SignalWait{{Peer: 0, Count: 1}}, nil)
		err = errors.Join(err, comms[1].Synchronize(context.Background(), nil))
		var e *goccl.Error
		if !errors.As(err, &e) || e.Op != "wait signal" || e.Peer != 0 || !errors.Is(err, goccl.ErrTimeout) {
			t.Errorf("want a timeout of the wait that names rank 0, got %v", err)
		}
	})
}
