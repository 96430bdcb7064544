package gpu_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
)

// Work is captured in every mode, also as the first work of a communicator, and replayed. The ranks of the process
// capture one after the other: during a capture in global mode, no other thread may allocate, copy or poll.
func TestGPUCaptureModes(t *testing.T) {
	for name, mode := range map[string]cuda.CaptureMode{"global": cuda.CaptureGlobal,
		"thread-local": cuda.CaptureThreadLocal, "relaxed": cuda.CaptureRelaxed} {
		t.Run(name, func(t *testing.T) {
			comms := commtest.TwoGPUs(t)
			parts := make([]*captured, len(comms))
			for r, c := range comms {
				var err error
				if parts[r], err = captureMixture(c, mode, 2); err != nil {
					t.Fatal(err)
				}
			}
			if err := commtest.Each(len(comms), func(r int) error {
				k := parts[r]
				for round := range 3 {
					err := k.spoil()
					for i := 0; i < 3 && err == nil; i++ {
						err = k.x.Launch(k.s)
					}
					if err = errors.Join(err, k.check()); err != nil {
						return fmt.Errorf("round %d: %w", round, err)
					}
				}
				return k.close()
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A graph of every collective is replayed repeatedly, with eager work before, between and after, on its stream and on
// another.
func TestGPUReplaysAmongEagerCalls(t *testing.T) {
	const rounds, replays, times = 50, 20, 10
	comms := commtest.TwoGPUs(t)
	if err := commtest.Each(len(comms), func(r int) (err error) {
		c := comms[r]
		k, err := captureMixture(c, cuda.CaptureThreadLocal, rounds)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, k.close()) }()
		u, err := commtest.NewSums(c) // on a separate stream
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, u.Close()) }()
		for i := range times {
			if err := k.spoil(); err != nil {
				return err
			}
			for j := range replays {
				if err := k.x.Launch(k.s); err != nil {
					return err
				}
				if j%5 == 0 {
					if err := k.eager(); err != nil {
						return err
					}
				}
			}
			if err := k.check(); err != nil {
				return fmt.Errorf("after %d replays: %w", (i+1)*replays, err)
			}
			if err := u.Once(3); err != nil {
				return fmt.Errorf("eager, after %d replays: %w", (i+1)*replays, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// A million all-reduces from one graph. Rank 0 adds the others' inputs to its own sum, so each must have run exactly
// once.
func TestGPUMillionReplays(t *testing.T) {
	const ops, replays, pause, count, limit = 1000, 1000, 20, 64, 20 * time.Second
	comms := commtest.TwoGPUs(t)
	n := len(comms)
	begin := time.Now()
	if err := commtest.Each(n, func(r int) (err error) {
		c := comms[r]
		k := &captured{c: c}
		defer func() { err = errors.Join(err, k.close()) }()
		if k.s, err = commtest.GPUStream(c); err != nil {
			return err
		}
		if k.mem, err = c.Device().Alloc(2 * 4 * count); err != nil {
			return err
		}
		var ones []byte
		for range count {
			ones = binary.LittleEndian.AppendUint32(ones, 1)
		}
		send, recv := k.mem.Ptr(), k.mem.Ptr().Add(4*count)
		if r == 0 {
			recv = send
		}
		if err := c.Device().CopyIn(send, ones); err != nil {
			return err
		}
		k.x, err = commtest.Capture(k.s, cuda.CaptureThreadLocal, func() error {
			for range ops {
				if err := c.AllReduce(send, recv, count, datatype.Uint32, datatype.Sum, k.s); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i := range replays {
			if err := k.x.Launch(k.s); err != nil {
				return err
			}
			if (i+1)%pause == 0 {
				if err := k.wait(limit); err != nil {
					return fmt.Errorf("rank %d, after %d replays: %w", r, i+1, err)
				}
			}
		}
		got, want := make([]byte, 4*count), uint32(1+ops*replays*(n-1))
		if err := c.Device().CopyOut(got, recv); err != nil {
			return err
		}
		for i := range count {
			if v := binary.LittleEndian.Uint32(got[4*i:]); v != want {
				return fmt.Errorf("rank %d: element %d is %d after %d operations, want %d", r, i, v, ops*replays, want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	t.Logf("%d operations in %v: %.2f µs each", ops*replays, took, took.Seconds()/(ops*replays)*1e6)
}
