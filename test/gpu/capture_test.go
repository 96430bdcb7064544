package gpu_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/test/conformance"
)

// orderNodes is the number of nodes per communicator that order a graph's launches: a wait for an event and a record of
// it.
const orderNodes = 2

// mixture returns every collective, a ring of messages and a pair, of small and larger sizes.
func mixture(n int) (items []commtest.Item) {
	for i, c := range commtest.Collectives {
		items = append(items, commtest.Item{Coll: c, Count: []int64{1, 1013, 40_000}[i%3], Root: i % n})
	}
	for r := range n {
		items = append(items, commtest.Item{Message: true, Src: r, Dst: (r + 1) % n, Count: 3000})
	}
	return append(items, commtest.Item{Message: true, Src: n - 1, Dst: 0, Count: 50_000},
		commtest.Item{Message: true, Src: 0, Dst: n - 1, Count: 8})
}

// captured is a rank's stream with a graph of some rounds of work on it.
type captured struct {
	c     *goccl.Comm
	s     *cuda.Stream
	x     *cuda.Exec
	mem   device.Allocation
	parts []commtest.Work
}

// captureMixture captures the mixture rounds times; each time is a group.
func captureMixture(c *goccl.Comm, mode cuda.CaptureMode, rounds int) (k *captured, err error) {
	k = &captured{c: c}
	defer func() {
		if err != nil {
			err = errors.Join(err, k.close())
		}
	}()
	if k.s, err = commtest.GPUStream(c); err != nil {
		return k, err
	}
	if k.mem, err = c.Device().Alloc(commtest.ArenaBytes); err != nil {
		return k, err
	}
	at, n := int64(0), c.WorldSize()
	arena := func(n int64) device.Ptr {
		p := k.mem.Ptr().Add(at)
		at += (n + 15) &^ 15
		if at > commtest.ArenaBytes {
			panic("the arena is too small")
		}
		return p
	}
	if k.parts, err = commtest.Arrange([]*goccl.Comm{c}, [][]int{commtest.Everyone(n)}, mixture(n), arena,
		func() device.Stream { return k.s }); err != nil {
		return k, err
	}
	k.x, err = commtest.Capture(k.s, mode, func() error {
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
		calls[i] = k.parts[i].Call
	}
	return goccl.Submit(calls)
}

// spoil overwrites the outputs of the mixture.
func (k *captured) spoil() error {
	for _, w := range k.parts {
		if len(w.Want) > 0 {
			if err := k.c.Device().CopyIn(w.Recv, bytes.Repeat([]byte{0xa5}, len(w.Want))); err != nil {
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
		got := make([]byte, len(w.Want))
		if err := k.c.Device().CopyOut(got, w.Recv); err != nil {
			return err
		}
		if !bytes.Equal(got, w.Want) {
			return fmt.Errorf("rank %d: call %d, %v of %d: %s", k.c.Rank(), i, w.Call.Request.Collective, w.Call.Request.Count,
				difference(got, w.Want))
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
