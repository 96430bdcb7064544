package verdict_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
)

// Verdicts of jobs with ranks that are late, starved, aborted, or in another operation, with operations one by one and
// in graphs. Each verdict is compared with what the ranks did: when they called the operation and when it ended. None
// may be false. GOCCL_VERDICT_OPS is the number of operations; with GOCCL_FULL it is a million.
func TestNoVerdictIsFalse(t *testing.T) {
	t.Setenv("GOCCL_VERDICT_AFTER", tortureAfter.String())
	commtest.OnKinds(t, 4, func(t *testing.T, n int, open func(int) (device.Device, error)) { torture(t, n, open) })
}

func TestMock(t *testing.T) { commtest.RunOnMock(t) }

// The mock's kernels end at once: what waits is what a stream waits for, as behind work of the user.
func TestOnMockNoVerdictIsFalse(t *testing.T) {
	commtest.NeedMock(t)
	t.Setenv("GOCCL_VERDICT_AFTER", tortureAfter.String())
	torture(t, 4, func(r int) (device.Device, error) { return cuda.Open(r % 4) })
}

const (
	tortureAfter = 100 * time.Millisecond
	roundOps     = 400
	graphOps     = 8
)

// The kinds of rounds.
const (
	roundSkew = iota
	roundStarved
	roundAborted
	roundDiffers
	roundKinds
)

// round is a communicator with what its ranks did. Times are by rank and number of the operation, in ns; 0: never.
type round struct {
	kind, victim, at int
	called, ended    [][]atomic.Int64
	comms            []*goccl.Comm
	deaf             bool // operations that differ are not found out

	mu   sync.Mutex
	said []*goccl.Verdict
}

func tortureOps(t *testing.T) int {
	text := os.Getenv("GOCCL_VERDICT_OPS")
	if text == "" {
		return map[bool]int{true: 4 * roundOps, false: 1_000_000}[os.Getenv("GOCCL_FULL") == ""]
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal("GOCCL_VERDICT_OPS: ", err)
	}
	return n
}

func torture(t *testing.T, n int, open func(int) (device.Device, error)) {
	random := rand.New(rand.NewPCG(1, 2))
	done, verdicts := 0, map[collective.VerdictKind]int{}
	for k := 0; done < tortureOps(t); k++ {
		x := &round{kind: k % roundKinds, victim: random.IntN(n), at: roundOps/2 + random.IntN(roundOps/4),
			called: make([][]atomic.Int64, n), ended: make([][]atomic.Int64, n), comms: commtest.New(t, n, open, nil)}
		x.deaf = x.comms[0].Device().ID().Kind == device.CUDA
		for r := range n {
			x.called[r], x.ended[r] = make([]atomic.Int64, roundOps+1), make([]atomic.Int64, roundOps+1)
		}
		x.run(t, random.Uint64())
		for _, v := range x.said {
			verdicts[v.Kind]++
			if why := x.wrong(v); why != "" {
				t.Errorf("round %d of kind %d, victim %d at #%d: %s: %+v", k, x.kind, x.victim, x.at, why, v)
			}
		}
		done += roundOps
		if x.kind >= roundAborted {
			done -= roundOps - x.at
		}
	}
	t.Logf("%d operations; verdicts %v", done, verdicts)
}

// run makes the ranks' calls, and collects all verdicts.
func (x *round) run(t *testing.T, seed uint64) {
	over := make(chan struct{})
	var others sync.WaitGroup
	if x.kind == roundStarved {
		for range 2 * runtime.GOMAXPROCS(0) {
			others.Go(func() {
				for {
					for begun := time.Now(); time.Since(begun) < 20*time.Millisecond; {
						continue
					}
					select {
					case <-over:
						return
					case <-time.After(20 * time.Millisecond):
					}
				}
			})
		}
	}
	for _, c := range x.comms {
		others.Go(func() {
			for last := (*goccl.Verdict)(nil); ; time.Sleep(5 * time.Millisecond) {
				if v := c.Verdict(); v != last && v != nil {
					x.say(v)
					last = v
				}
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	err := commtest.Each(len(x.comms), func(r int) error { return x.rank(r, rand.New(rand.NewPCG(seed, uint64(r)))) })
	close(over)
	others.Wait()
	for _, c := range x.comms {
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		t.Error(err)
	}
}

func (x *round) say(v *goccl.Verdict) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.said = append(x.said, v)
}

// rank is one rank's calls. A rank that fails for the round's reason closes its communicator at once.
func (x *round) rank(r int, random *rand.Rand) (err error) {
	c := x.comms[r]
	s, err := c.Device().NewStream()
	if err != nil {
		return err
	}
	mem, err := c.Device().Alloc(8192)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	defer func() { _ = errors.Join(s.Close(), mem.Close()) }()
	err = x.calls(r, c, s, mem.Ptr(), random)
	if err == nil || x.kind < roundAborted {
		return err
	}
	var ge *goccl.Error
	if errors.As(err, &ge) && ge.Verdict != nil {
		x.say(ge.Verdict)
	}
	if !errors.Is(err, goccl.ErrAborted) && !errors.Is(err, goccl.ErrMismatch) && !errors.Is(err, goccl.ErrClosed) {
		return err
	}
	if random.IntN(2) == 0 {
		time.Sleep(time.Duration(random.IntN(150)) * time.Millisecond)
	}
	return c.Close()
}

func (x *round) calls(r int, c *goccl.Comm, s device.Stream, p device.Ptr, random *rand.Rand) error {
	first := 1 // of the operations that have not been waited for
	wait := func(to int) error {
		if err := c.Synchronize(context.Background(), s); err != nil {
			return err
		}
		for ; first <= to; first++ {
			x.ended[r][first].Store(time.Now().UnixNano())
		}
		return nil
	}
	sum := func(i int, count int64) error {
		x.called[r][i].Store(time.Now().UnixNano())
		return c.AllReduce(p, p, count, datatype.Int32, datatype.Sum, s)
	}
	for i := 1; i <= roundOps; i++ {
		switch k := random.IntN(4000); {
		case k < 8:
			time.Sleep(tortureAfter / 4)
		case k == 8:
			time.Sleep(3 * tortureAfter)
		case k == 9 && x.kind != roundDiffers: // a long queue
			time.Sleep(tortureAfter / 2)
		}
		count := int64(100)
		if i == x.at && r == x.victim {
			switch x.kind {
			case roundAborted:
				c.Abort(nil)
				return goccl.ErrAborted
			case roundDiffers:
				if x.deaf {
					c.Abort(nil)
					return goccl.ErrAborted
				}
				count++
			}
		}
		if g, ok := s.(*cuda.Stream); ok && i%200 == 100 && (i+graphOps < x.at || x.kind < roundAborted) {
			if err := x.graph(g, func(k int) error { return sum(i+k, count) }); err != nil {
				return fmt.Errorf("graph at #%d: %w", i, err)
			}
			i += graphOps - 1
			continue
		}
		err := sum(i, count)
		if err == nil && (i%16 == 0 || i == roundOps) {
			err = wait(i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// graph captures operations, replays them behind a wait of the stream that is longer than the time of a verdict, and
// leaves the last replays on the stream.
func (x *round) graph(s *cuda.Stream, call func(k int) error) error {
	g, err := commtest.Capture(s, cuda.CaptureThreadLocal, func() error {
		for k := range graphOps {
			if err := call(k); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for range 50 {
		if err := g.Launch(s); err != nil {
			return errors.Join(err, g.Close())
		}
	}
	if err := s.Synchronize(context.Background()); err != nil {
		return errors.Join(err, g.Close())
	}
	return g.Close()
}

// wrong says why a verdict is false, by what the ranks did; "": it is right.
func (x *round) wrong(v *goccl.Verdict) string {
	ended := x.kind == roundAborted || x.kind == roundDiffers
	switch v.Kind {
	case collective.VerdictAborted:
		if !ended {
			return "nobody has left"
		}
		return ""
	case collective.VerdictMismatch:
		if x.kind != roundDiffers || x.deaf || v.Rank >= 0 && v.Rank != x.victim || int(v.Number) != x.at {
			return "the operations are the same"
		}
		return ""
	case collective.VerdictSlow:
		return ""
	case collective.VerdictMissing, collective.VerdictStarved:
	default:
		return "nothing of the kind was done"
	}
	if v.Number == 0 || int(v.Number) > roundOps || v.By < 0 {
		return "there is no such operation"
	}
	mine, last := x.called[v.By][v.Number].Load(), int64(0)
	for r := range x.called {
		last = max(last, x.called[r][v.Number].Load())
	}
	slow := v.Kind == collective.VerdictStarved && x.ended[v.By][v.Number].Load()-last > int64(tortureAfter/2)
	for _, r := range v.Blamed() {
		at := x.called[r][v.Number].Load()
		if at != 0 && at-mine < int64(tortureAfter/2) && !slow {
			return fmt.Sprintf("rank %d called it %v after rank %d", r, time.Duration(at-mine), v.By)
		}
	}
	return ""
}
