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
				size := []int64{8, 1000, 65536, 70001, 1 << 20, 4<<20 - 7, most}[i%7]
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
			return nil
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
