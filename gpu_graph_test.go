package goccl_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
)

// Work is captured in every mode, also as the first work of a communicator, and replayed. The ranks of the process
// capture one after the other: during a capture in global mode, no other thread may allocate, copy or poll.
func TestGPUCaptureModes(t *testing.T) {
	for name, mode := range map[string]cuda.CaptureMode{"global": cuda.CaptureGlobal, "thread-local": cuda.CaptureThreadLocal, "relaxed": cuda.CaptureRelaxed} {
		t.Run(name, func(t *testing.T) {
			comms := twoGPUs(t)
			parts := make([]*captured, len(comms))
			for r, c := range comms {
				var err error
				if parts[r], err = captureMixture(c, mode, 2); err != nil {
					t.Fatal(err)
				}
			}
			if err := each(len(comms), func(r int) error {
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
	comms := twoGPUs(t)
	if err := each(len(comms), func(r int) (err error) {
		c := comms[r]
		k, err := captureMixture(c, cuda.CaptureThreadLocal, rounds)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, k.close()) }()
		u, err := newSums(c) // on a stream of its own
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, u.close()) }()
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
			if err := u.once(3); err != nil {
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
	comms := twoGPUs(t)
	n := len(comms)
	begin := time.Now()
	if err := each(n, func(r int) (err error) {
		c := comms[r]
		k := &captured{c: c}
		defer func() { err = errors.Join(err, k.close()) }()
		if k.s, err = gpuStream(c); err != nil {
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
		k.x, err = capture(k.s, cuda.CaptureThreadLocal, func() error {
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
	if took > limit {
		t.Errorf("%v, want %v", took, limit)
	}
}

// replay replays a graph of all-reduces until a rank dies.
func (k *rank) replay() error {
	const ops, ahead = 200, 5
	c, err := k.comm(k.boot)
	if err != nil {
		return err
	}
	u, err := newSums(c)
	if err != nil {
		return err
	}
	if err := u.once(1); err != nil {
		return err
	}
	s, ok := u.s.(*cuda.Stream)
	if !ok {
		return fmt.Errorf("%v has no graphs", c.Device().ID())
	}
	x, err := capture(s, cuda.CaptureThreadLocal, func() error {
		for range ops {
			if err := c.AllReduce(u.mem.Ptr(), u.mem.Ptr().Add(4*faultCount), faultCount, datatype.Int32, datatype.Sum, s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := 0; err == nil; i++ {
		if i == 5 {
			k.say("running", nil)
		}
		for range ahead {
			if err = x.Launch(s); err != nil {
				break
			}
		}
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			err = c.Synchronize(ctx, s)
			cancel()
		}
	}
	// Queued work has ended, the graph can be destroyed, and an abort (here after a failure) takes no time.
	k.say("error", err)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Synchronize(ctx); err != nil {
		return fmt.Errorf("the stream after the death: %w", err)
	}
	if err := x.Close(); err != nil {
		return err
	}
	begin := time.Now()
	c.Abort(nil)
	if d := time.Since(begin); d > 100*time.Millisecond {
		return fmt.Errorf("abort took %v", d)
	}
	return k.mourn(c, u, err)
}

// A rank is killed in the middle of replays: the others' kernels end, their errors name it, their GPUs' contexts still
// work, and they continue without it.
func TestGPUKillInReplay(t *testing.T) {
	n, _ := cudaRanks(t)
	tk := task{Do: "replay", Size: n, Victim: n / 2, CUDA: true}
	inTime(t, tk, detection, func(j *job) time.Duration {
		j.await("running", everyone(n), 30*time.Second)
		killed := j.signal(tk.Victim, syscall.SIGKILL)
		worst := j.checkErrors(goccl.ErrPeerDead, killed)
		j.await("shrunk", others(n, tk.Victim), 20*time.Second)
		j.await("done", others(n, tk.Victim), 20*time.Second)
		return worst
	})
}
