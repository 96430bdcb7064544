package goccl_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/conformance"
)

// twoGPUs makes a rank of this process on every GPU, where there are two.
func twoGPUs(t *testing.T) []*goccl.Comm {
	t.Helper()
	n, open := cudaRanks(t)
	if gpus, err := cuda.Count(); err != nil || gpus < 2 {
		t.Skip("fewer than two GPUs: ", err)
	}
	return commsWith(t, n, open, nil)
}

func gpuStream(c *goccl.Comm) (*cuda.Stream, error) {
	s, err := c.Device().NewStream()
	if err != nil {
		return nil, err
	}
	return s.(*cuda.Stream), nil
}

// capture makes a graph of what enqueue does on s.
func capture(s *cuda.Stream, mode cuda.CaptureMode, enqueue func() error) (*cuda.Exec, error) {
	x, _, err := captureNodes(s, mode, enqueue)
	return x, err
}

// captureNodes also says how many operations the graph has.
func captureNodes(s *cuda.Stream, mode cuda.CaptureMode, enqueue func() error) (x *cuda.Exec, nodes int, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := s.BeginCapture(mode); err != nil {
		return nil, 0, err
	}
	err = enqueue()
	g, e := s.EndCapture() // also after a failure, or the stream stays in capture mode
	if err = errors.Join(err, e); err != nil {
		return nil, 0, err
	}
	nodes, err = g.Nodes()
	x, e = g.Instantiate()
	return x, nodes, errors.Join(err, e, g.Close())
}

// mixture is every collective, a ring of messages and a pair, of small and larger sizes.
func mixture(n int) (items []item) {
	for i, c := range groupCollectives {
		items = append(items, item{coll: c, count: []int64{1, 1013, 40_000}[i%3], root: i % n})
	}
	for r := range n {
		items = append(items, item{message: true, src: r, dst: (r + 1) % n, count: 3000})
	}
	return append(items, item{message: true, src: n - 1, dst: 0, count: 50_000}, item{message: true, src: 0, dst: n - 1, count: 8})
}

// captured is a rank's stream with a graph of some rounds of work on it.
type captured struct {
	c     *goccl.Comm
	s     *cuda.Stream
	x     *cuda.Exec
	mem   device.Allocation
	parts []work
}

// captureMixture captures the mixture that many times; each is a group.
func captureMixture(c *goccl.Comm, mode cuda.CaptureMode, rounds int) (k *captured, err error) {
	k = &captured{c: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	if k.s, err = gpuStream(c); err != nil {
		return k, err
	}
	if k.mem, err = c.Device().Alloc(arenaBytes); err != nil {
		return k, err
	}
	at, n := int64(0), c.WorldSize()
	arena := func(n int64) device.Ptr {
		p := k.mem.Ptr().Add(at)
		at += (n + 15) &^ 15
		if at > arenaBytes {
			panic("the arena is too small")
		}
		return p
	}
	if k.parts, err = arrange([]*goccl.Comm{c}, [][]int{everyone(n)}, mixture(n), arena, func() device.Stream { return k.s }); err != nil {
		return k, err
	}
	k.x, err = capture(k.s, mode, func() error {
		for range rounds {
			if err := k.eager(); err != nil {
				return err
			}
		}
		return nil
	})
	return k, err
}

// eager enqueues the mixture once.
func (k *captured) eager() error {
	calls := make([]goccl.Call, len(k.parts))
	for i := range k.parts {
		calls[i] = k.parts[i].call
	}
	return goccl.Submit(calls)
}

// spoil overwrites what the mixture is to write.
func (k *captured) spoil() error {
	for _, w := range k.parts {
		if len(w.want) > 0 {
			if err := k.c.Device().CopyIn(w.recv, bytes.Repeat([]byte{0xa5}, len(w.want))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *captured) wait(within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return k.c.Synchronize(ctx, k.s)
}

// check waits and looks at the results.
func (k *captured) check() error {
	if err := k.wait(conformance.Timeout); err != nil {
		return err
	}
	for i, w := range k.parts {
		got := make([]byte, len(w.want))
		if err := k.c.Device().CopyOut(got, w.recv); err != nil {
			return err
		}
		if !bytes.Equal(got, w.want) {
			return fmt.Errorf("rank %d: call %d, %v of %d: %s", k.c.Rank(), i, w.call.Request.Collective, w.call.Request.Count, difference(got, w.want))
		}
	}
	return nil
}

// difference says where results are wrong, and what is there.
func difference(got, want []byte) string {
	var at []string
	wrong := 0
	for i := 0; i < len(got); i++ {
		if got[i] == want[i] {
			continue
		}
		j := i
		for j < len(got) && got[j] != want[j] {
			j++
		}
		wrong += j - i
		if len(at) < 8 {
			at = append(at, fmt.Sprintf("[%d, %d) is % x", i, j, got[i:min(j, i+16)]))
		}
		i = j
	}
	return fmt.Sprintf("%d of %d bytes are wrong: %s", wrong, len(got), strings.Join(at, "; "))
}

func (k *captured) close() error {
	var errs []error
	if k.x != nil {
		errs = append(errs, k.x.Close())
	}
	if k.s != nil {
		errs = append(errs, k.s.Close())
	}
	if k.mem != nil {
		errs = append(errs, k.mem.Close())
	}
	return errors.Join(errs...)
}

// Work is captured in every mode, also as the first that a communicator does, and replayed. The ranks of the process capture one after the other:
// while one does in global mode, no other thread may allocate, copy or poll.
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

// A graph of every collective is replayed over and over, with eager work before, between and behind, on its stream and on another.
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

// A million all-reduces out of one graph. Rank 0 adds what the others bring to what it has, so all must have run, each once.
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

// replay is a graph of all-reduces, over and over until somebody dies.
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
	// What was in the queue has ended, the graph can be given back, and an abort, here of what has failed already, takes no time.
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

// A rank is killed in the middle of replays: the others' kernels end, their errors name it, their GPUs' contexts work, and they go on without it.
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
