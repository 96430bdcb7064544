package goccl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/conformance"
)

// twoGPUs makes a rank of this process on every GPU, if there are at least two.
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

// capture makes a graph of the work that enqueue puts on s.
func capture(s *cuda.Stream, mode cuda.CaptureMode, enqueue func() error) (*cuda.Exec, error) {
	x, _, err := captureNodes(s, mode, enqueue)
	return x, err
}

// orderNodes is the number of nodes per communicator that order a graph's launches: a wait for an event and a record of
// it.
const orderNodes = 2

// captureNodes also returns the number of operations in the graph.
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

// mixture returns every collective, a ring of messages and a pair, of small and larger sizes.
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

// captureMixture captures the mixture rounds times; each time is a group.
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

// spoil overwrites the outputs of the mixture.
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

// check waits and compares the results.
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

// difference describes where results are wrong, and their values.
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
