package verdict_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
)

// TestCostOfRecords times all-reduces of 1 KiB by communicators with and without records, in short blocks that take
// turns. It prints the medians of the ratios with their intervals of 95 %, and asserts nothing about speed. A third set
// of communicators, without records, too, shows what the ratio of equal sets is: the error of the measurement.
//
// Places in memory differ between sets, so there are several rounds with new sets, made in another order each time.
func TestCostOfRecords(t *testing.T) {
	if os.Getenv("GOCCL_FULL") == "" {
		t.Skip("prints times: GOCCL_FULL=1 runs it")
	}
	commtest.OnKinds(t, 4, func(t *testing.T, n int, open func(int) (device.Device, error)) {
		for _, name := range []string{"eager", "graph"} {
			var calls, total costs
			for round := range rounds {
				t.Run(name, func(t *testing.T) {
					m := newCostMeter(t, n, open, round)
					if name == "graph" {
						m.capture(t)
					}
					m.measure(t, &calls, &total)
				})
			}
			if len(total.on) > 0 {
				t.Logf("%d ranks, %s: %s", n, name, total.String())
				t.Logf("%d ranks, %s, the calls alone: %s", n, name, calls.String())
			}
		}
	})
}

const (
	rounds     = 6
	roundTime  = 2 * time.Second
	blockCalls = 100
)

// The sets of communicators.
const (
	off = iota
	control
	on
	setCount
)

// costMeter is n ranks of each set.
type costMeter struct {
	sets    [setCount][]*goccl.Comm
	mem     []device.Allocation
	streams []device.Stream
	graphs  [setCount][]*cuda.Exec // by rank; nil: calls are made one by one
	meeting meeting
}

func newCostMeter(t *testing.T, n int, open func(int) (device.Device, error), round int) *costMeter {
	m := &costMeter{mem: make([]device.Allocation, n), streams: make([]device.Stream, n), meeting: meeting{n: int64(n)}}
	for i := range setCount {
		i = (i + round) % setCount
		t.Setenv("GOCCL_RECORD", map[bool]string{false: "0", true: "512"}[i == on])
		m.sets[i] = commtest.New(t, n, open, nil)
	}
	for r, c := range m.sets[off] {
		var err error
		if m.mem[r], err = c.Device().Alloc(2048); err == nil {
			m.streams[r], err = c.Device().NewStream()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for r := range n {
			if err := errors.Join(m.streams[r].Close(), m.mem[r].Close()); err != nil {
				t.Error(err)
			}
		}
	})
	return m
}

// calls enqueues a block of a set.
func (m *costMeter) calls(set, r int) error {
	for range blockCalls {
		p := m.mem[r].Ptr()
		if err := m.sets[set][r].AllReduce(p, p.Add(1024), 256, datatype.Float32, datatype.Sum, m.streams[r]); err != nil {
			return err
		}
	}
	return nil
}

// capture makes a graph of each set's block.
func (m *costMeter) capture(t *testing.T) {
	if _, ok := m.streams[0].(*cuda.Stream); !ok {
		t.Skip("graphs are of GPUs")
	}
	for set := range m.graphs {
		m.graphs[set] = make([]*cuda.Exec, len(m.streams))
		if err := commtest.Each(len(m.streams), func(r int) (err error) {
			m.graphs[set][r], err = m.streams[r].(*cuda.Stream).Capture(func() error { return m.calls(set, r) })
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, x := range slices.Concat(m.graphs[:]...) {
			if err := x.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

// measure runs turns of blocks, and adds their ratios.
func (m *costMeter) measure(t *testing.T, calls, total *costs) {
	var over atomic.Bool
	end := time.Now().Add(roundTime)
	if err := commtest.Each(len(m.streams), func(r int) error {
		for turn := 0; !over.Load(); turn++ {
			var called, done [setCount]time.Duration
			for _, set := range []int{off, control, on, on, control, off} {
				m.meeting.wait()
				begin := time.Now()
				err := error(nil)
				if x := m.graphs[set]; x != nil {
					err = x[r].Launch(m.streams[r].(*cuda.Stream))
				} else {
					err = m.calls(set, r)
				}
				called[set] += time.Since(begin)
				if err == nil {
					err = m.sets[set][r].Synchronize(context.Background(), m.streams[r])
				}
				if err != nil {
					m.meeting.over.Store(true)
					return err
				}
				done[set] += time.Since(begin)
			}
			if r == 0 && turn >= 10 { // warm
				calls.add(called)
				total.add(done)
				over.Store(time.Now().After(end))
			}
			m.meeting.wait() // all see the same over
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// meeting is a barrier of goroutines that do not sleep. It ends early if one has failed.
type meeting struct {
	n       int64
	arrived atomic.Int64
	over    atomic.Bool
}

func (m *meeting) wait() {
	k := m.arrived.Add(1)
	for full := (k + m.n - 1) / m.n * m.n; m.arrived.Load() < full && !m.over.Load(); {
		runtime.Gosched()
	}
}
