package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"weak"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/leak"
)

// A communicator that is made and closed must leave nothing: rank.cycles makes some, a few at a time, and measures in
// between. Memory that nearly all of these spans leave is a leak. What a single span leaves may be a cache that fills,
// or a stack. A stack or a cache that is freed may hide the leak of a span.
const (
	span   = 3  // communicators between two measurements
	spans  = 12 // if there is a leak, each leaves more, at most spared excepted
	spared = 2
)

// measures are the kinds of memory, and how much of each a span may leave.
var measures = map[string]int64{
	"bytes of Go's heap":             span * 64 << 10,
	"bytes of private memory":        span * 256 << 10,
	"bytes of addresses":             span * 1 << 20,
	"bytes of device memory":         span * 1 << 20,
	"descriptors":                    0,
	"goroutines":                     0,
	"shared mappings":                0,
	"communicators that were closed": 0,
}

// held measures the memory of this process, and counts the closed communicators that still exist.
func (r *rank) held(closed []weak.Pointer[goccl.Comm]) map[string]int64 {
	runtime.GC()
	debug.FreeOSMemory()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	h := leak.Held()
	m := map[string]int64{"bytes of Go's heap": int64(heap.HeapAlloc), "descriptors": int64(h.Descriptors),
		"goroutines": int64(h.Goroutines), "shared mappings": int64(h.Mappings)}
	status, _ := os.ReadFile("/proc/self/status")
	for line := range bytes.Lines(status) {
		for field, measure := range map[string]string{"RssAnon:": "bytes of private memory",
			"VmSize:": "bytes of addresses"} {
			if rest, ok := bytes.CutPrefix(line, []byte(field)); ok {
				kib := int64(0)
				_, _ = fmt.Sscan(string(rest), &kib)
				m[measure] = kib << 10
			}
		}
	}
	if gpu, ok := r.dev.(*cuda.Device); ok && !r.Shared {
		if free, total, err := gpu.MemoryInfo(); err == nil {
			m["bytes of device memory"] = total - free
		}
	}
	for _, c := range closed {
		if c.Value() != nil {
			m["communicators that were closed"]++
		}
	}
	return m
}

// cycles makes communicators of the ranks of c, uses and closes them, and reports the memory and descriptors that they
// leave. The ranks stop together when none has something that grew in all spans so far.
func (r *rank) cycles(c *goccl.Comm, u *sums) error {
	var closed []weak.Pointer[goccl.Comm]
	before := r.held(nil)
	grew, clean := map[string]int64{}, map[string]int{} // bytes, and spans that left no more than allowed
	for n := 1; ; n++ {
		for range span {
			used, err := r.cycle(c)
			if err != nil {
				return fmt.Errorf("communicator %d after the fault: %w", n*span, err)
			}
			closed = append(closed, used)
		}
		after := r.held(closed)
		suspects := int32(0)
		for what, allowed := range measures {
			if after[what]-before[what] <= allowed {
				clean[what]++
			}
			grew[what] += after[what] - before[what]
			if clean[what] <= spared {
				suspects++
			}
		}
		before = after
		if more, err := u.most(suspects); err != nil || more == 0 {
			return err
		}
		if n == spans && suspects > 0 {
			maps.DeleteFunc(grew, func(what string, _ int64) bool { return clean[what] > spared })
			return r.sayGrowth(grew)
		}
		if n == spans {
			return nil
		}
	}
}

// cycle makes one communicator, uses and closes it.
func (r *rank) cycle(c *goccl.Comm) (weak.Pointer[goccl.Comm], error) {
	sub, err := c.Split(context.Background(), 0, c.Rank())
	if err != nil {
		return weak.Pointer[goccl.Comm]{}, err
	}
	if err = r.steady(sub, 1000, 1); err == nil {
		err = sub.Finalize(context.Background())
	}
	return weak.Make(sub), errors.Join(err, sub.Close())
}

func (r *rank) sayGrowth(grew map[string]int64) error {
	var list []string
	for what, n := range grew {
		if n > 0 {
			list = append(list, fmt.Sprintf("%d %s", n, what))
		}
	}
	slices.Sort(list)
	r.say("leak", fmt.Errorf("%d communicators, made and closed, left %s", span*spans, strings.Join(list, ", ")))
	return nil
}

// most is the largest n of all ranks.
func (u *sums) most(n int32) (int32, error) {
	u.buffer[0] = n
	q := collective.Request{Collective: collective.AllReduce, Count: 1, Type: datatype.Int32, Op: datatype.Max,
		Send: u.mem.Ptr(), Recv: u.mem.Ptr().Add(4 * int64(len(u.buffer))), Stream: u.stream}
	err := u.run(q, 1, 1)
	return u.buffer[0], err
}
