package verdict_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/test/commtest"
	"github.com/goccl/goccl/watch/record"
)

// Verdicts of jobs with ranks that are late, starved, aborted, or in another operation, with operations one by one and
// in graphs. Each verdict is compared with what the ranks did: when they called the operation and when it ended. None
// may be false. GOCCL_VERDICT_OPS is the number of operations; with GOCCL_FULL it is a million. GOCCL_VERDICT_SEED is
// the seed, 1 by default.
func TestNoVerdictIsFalse(t *testing.T) {
	t.Setenv("GOCCL_VERDICT_AFTER", tortureAfter.String())
	commtest.OnKinds(t, 4, func(t *testing.T, n int, open func(int) (device.Device, error)) { torture(t, n, open) })
}

func TestMock(t *testing.T) { commtest.RunOnMock(t) }

// The mock's kernels end at once. Operations in graphs wait, because the graphs do: see round.graph.
func TestOnMockNoVerdictIsFalse(t *testing.T) {
	commtest.NeedMock(t)
	t.Setenv("GOCCL_VERDICT_AFTER", tortureAfter.String())
	torture(t, 4, func(r int) (device.Device, error) { return cuda.Open(r % 4) })
}

const (
	tortureAfter = 100 * time.Millisecond
	roundOps     = 400
	longRoundOps = 2000 // of a run of millions
	graphOps     = 8
	gateTime     = 4 * tortureAfter
)

// The kinds of rounds.
const (
	roundSkew = iota
	roundStarved
	roundAborted
	roundDiffers
)

// A starved round takes long: there are few of them.
var roundKinds = [...]int{roundSkew, roundStarved, roundAborted, roundDiffers, roundSkew, roundAborted, roundDiffers}

// round is a communicator with what its ranks did. Times are by rank and number of the operation, in ns; 0: never.
type round struct {
	kind, victim, at, ops int
	called, ended         [][]atomic.Int64
	graphs                []atomic.Bool // by number of the operation
	comms                 []*goccl.Comm
	deaf                  bool // operations that differ are not found out

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
	seed := 1
	if s := os.Getenv("GOCCL_VERDICT_SEED"); s != "" {
		var err error
		if seed, err = strconv.Atoi(s); err != nil {
			t.Fatal("GOCCL_VERDICT_SEED: ", err)
		}
	}
	random := rand.New(rand.NewPCG(uint64(seed), 2))
	want, done, verdicts, begun := tortureOps(t), 0, map[fault.VerdictKind]int{}, time.Now()
	for k := 0; done < want; k++ {
		ops := roundOps
		if want > 100*roundOps {
			ops = longRoundOps
		}
		x := &round{kind: roundKinds[k%len(roundKinds)], victim: random.IntN(n), at: ops/2 + random.IntN(ops/4), ops: ops,
			called: make([][]atomic.Int64, n), ended: make([][]atomic.Int64, n), comms: commtest.New(t, n, open, nil)}
		x.graphs = make([]atomic.Bool, ops+1)
		x.deaf = x.comms[0].Device().ID().Kind == device.CUDA
		for r := range n {
			x.called[r], x.ended[r] = make([]atomic.Int64, ops+1), make([]atomic.Int64, ops+1)
		}
		x.run(t, random.Uint64())
		for _, v := range x.said {
			verdicts[v.Kind]++
			if why := x.wrong(v); why != "" {
				t.Errorf("round %d of kind %d, victim %d at #%d: %s: %+v", k, x.kind, x.victim, x.at, why, v)
			}
		}
		done += ops
		if x.kind >= roundAborted {
			done -= ops - x.at
		}
		if k%10 == 9 {
			fmt.Fprintf(os.Stderr, "%v: %d operations; verdicts %v\n", time.Since(begun).Round(time.Second), done, verdicts)
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
	for i := 1; i <= x.ops; i++ {
		switch k := random.IntN(10 * x.ops); {
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
		if g, ok := s.(*cuda.Stream); ok && i == 100 && (i+graphOps < x.at || x.kind < roundAborted) {
			if random.IntN(2) == 0 { // the others have captured long before
				time.Sleep(3 * tortureAfter)
			}
			if err := x.graph(c, g, func(k int) error {
				x.graphs[i+k].Store(true)
				return sum(i+k, count)
			}); err != nil {
				return fmt.Errorf("graph at #%d: %w", i, err)
			}
			i += graphOps - 1
			continue
		}
		err := sum(i, count)
		if err == nil && (i%16 == 0 || i == x.ops) {
			err = wait(i)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// graph waits until a look has found all operations ended, and captures operations behind a wait of the stream. It
// replays them, and opens the gate long after the time of a verdict.
func (x *round) graph(c *goccl.Comm, s *cuda.Stream, call func(k int) error) (err error) {
	if err = s.Synchronize(context.Background()); err != nil {
		return err
	}
	for slices.ContainsFunc(c.Records().Operations, func(o record.Operation) bool { return o.IsOpen() }) {
		time.Sleep(5 * time.Millisecond)
	}
	gate, err := s.Device().Alloc(4096)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gate.Close()) }()
	opener, err := s.Device().NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, opener.Close()) }()
	g, err := commtest.Capture(s, cuda.CaptureThreadLocal, func() error {
		err := s.WaitValue64(gate.Ptr(), 1)
		for k := range graphOps {
			err = errors.Join(err, call(k))
		}
		return err
	})
	if err != nil {
		return err
	}
	err = s.WriteValue64(gate.Ptr(), 0)
	for range 50 {
		err = errors.Join(err, g.Launch(s))
	}
	time.Sleep(gateTime)
	err = errors.Join(err, opener.(*cuda.Stream).WriteValue64(gate.Ptr(), 1), s.Synchronize(context.Background()))
	return errors.Join(err, g.Close())
}

// wrong says why a verdict is false, by what the ranks did; "": it is right.
func (x *round) wrong(v *goccl.Verdict) string {
	ended := x.kind == roundAborted || x.kind == roundDiffers
	switch v.Kind {
	case fault.VerdictAborted:
		if !ended {
			return "nobody has left"
		}
		return ""
	case fault.VerdictMismatch:
		if x.kind != roundDiffers || x.deaf || v.Rank >= 0 && v.Rank != x.victim || int(v.Number) != x.at {
			return "the operations are the same"
		}
		return ""
	case fault.VerdictSlow:
		return ""
	case fault.VerdictMissing, fault.VerdictStarved:
	default:
		return "nothing of the kind was done"
	}
	if v.Number == 0 || int(v.Number) > x.ops || v.By < 0 {
		return "there is no such operation"
	}
	if x.graphs[v.Number].Load() {
		return "an operation in a graph does not wait"
	}
	mine, last := x.called[v.By][v.Number].Load(), int64(0)
	for r := range x.called {
		last = max(last, x.called[r][v.Number].Load())
	}
	slow := v.Kind == fault.VerdictStarved && x.ended[v.By][v.Number].Load()-last > int64(tortureAfter/2)
	for _, r := range v.Blamed() {
		at := x.called[r][v.Number].Load()
		if at != 0 && at-mine < int64(tortureAfter/2) && !slow {
			return fmt.Sprintf("rank %d called it %v after rank %d", r, time.Duration(at-mine), v.By)
		}
	}
	return ""
}
