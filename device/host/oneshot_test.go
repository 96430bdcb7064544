package host_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/internal/hostreduce"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/test/testutil"
)

// oneShot is a minimal all-reduce: every rank writes its 8 bytes into a slot of every rank and signals, then waits for
// all signals and reduces its slots. Slots alternate between two sets: a rank in round i+1 may write while another
// still reads round i.
type oneShot struct {
	n     int
	cells []*wait.Cell // of rank r from rank q: r·n + q
	slots []device.Ptr // of rank r: 2·n slots of 64 bytes
}

func newOneShot(b testing.TB, devices []*host.Device) *oneShot {
	n := len(devices)
	o := &oneShot{n: n, cells: make([]*wait.Cell, n*n), slots: make([]device.Ptr, n)}
	for r, d := range devices {
		a := alloc(b, d, int64(3*n*64)).(*host.Allocation)
		for q := range n {
			o.cells[r*n+q] = wait.At(a.Pointer(int64(q * 64)))
		}
		o.slots[r] = a.Ptr().Add(int64(n * 64))
	}
	return o
}

func (o *oneShot) slot(r int, round uint64, from int) []byte {
	return device.Bytes(o.slots[r].Add(int64((int(round&1)*o.n+from)*64)), 8)
}

func (o *oneShot) run(r int, round uint64, buf []byte, srcs [][]byte, l wait.Limit, p *wait.Policy) error {
	for i := 1; i < o.n; i++ {
		to := (r + i) % o.n
		copy(o.slot(to, round, r), buf)
		o.cells[to*o.n+r].Add(1)
	}
	for q := range o.n {
		if q == r {
			srcs[q] = buf
			continue
		}
		if err := o.cells[r*o.n+q].WaitAtLeast(round, l, p); err != nil {
			return fmt.Errorf("rank %d waits for %d: %w", r, q, err)
		}
		srcs[q] = o.slot(r, round, q)
	}
	return hostreduce.Reduce(buf, srcs, datatype.Float32, datatype.Sum, [8]byte{}, o.n)
}

// oneShotRounds returns the best time of a round over batches of 200: the time without other load.
func oneShotRounds(b testing.TB, rounds, batch int, synchronous bool) (best time.Duration) {
	best = time.Hour
	const n = 8
	devices := make([]*host.Device, n)
	for r := range devices {
		devices[r] = open(b, r)
	}
	o := newOneShot(b, devices)
	p := wait.For(n, n)
	var wg sync.WaitGroup
	for r, d := range devices {
		wg.Go(func() {
			var s *host.Stream
			if synchronous {
				w, err := d.WrapStream(0)
				if err != nil {
					b.Error(err)
					return
				}
				s = w.(*host.Stream)
			} else {
				s = stream(b, d)
			}
			l := wait.Limit{Deadline: wait.After(30 * time.Second), Abort: d.Abort()}
			buf, want, srcs := make([]byte, 8), make([]byte, 8), make([][]byte, n)
			if err := testutil.Expected(want, datatype.Float32, datatype.Sum, 1, n); err != nil {
				b.Error(err)
				return
			}
			start := time.Now()
			for round := uint64(1); round <= uint64(rounds); round++ {
				if r == 0 && round%200 == 0 {
					now := time.Now()
					best, start = min(best, now.Sub(start)/200), now
				}
				_ = s.Launch("one-shot", 1, func(*host.Block) error {
					hostreduce.Fill(buf, datatype.Float32, 1, r)
					return o.run(r, round, buf, srcs, l, p)
				})
				if round%uint64(batch) != 0 {
					continue
				}
				if err := s.Synchronize(context.Background()); err != nil {
					b.Error(err)
					return
				}
				if wrong, _ := hostreduce.Check(buf, want, datatype.Float32, datatype.Sum, n); wrong != 0 {
					b.Errorf("rank %d, round %d: %x, want %x", r, round, buf, want)
					return
				}
			}
		})
	}
	wg.Wait()
	return best
}

func TestOneShotAllReduce(t *testing.T) {
	oneShotRounds(t, 500, 1, false)
	oneShotRounds(t, 500, 1, true)
	oneShotRounds(t, 500, 50, false)
}

// Measure the cost of streams, waits and the reduction in one process. The budget of an 8-byte all-reduce of 8 ranks is
// 12 µs.
func BenchmarkOneShotAllReduce(b *testing.B) {
	for name, c := range map[string]struct {
		batch       int
		synchronous bool
	}{"stream, waiting for each": {1, false}, "stream, waiting for 50": {50, false}, "synchronous": {1, true}} {
		b.Run(name, func(b *testing.B) {
			b.ReportMetric(float64(oneShotRounds(b, b.N, c.batch, c.synchronous).Nanoseconds())/1e3, "µs/best")
		})
	}
}
