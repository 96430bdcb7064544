package gpu_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/test/commtest"
)

var (
	orderOperations = flag.Int("order.operations", 2000, "operations of TestGPUOrderRandom")
	orderSeed       = flag.Uint64("order.seed", 1, "seed of TestGPUOrderRandom")
)

// orderLimit bounds every wait: a longer wait is a hang.
const orderLimit = 10 * time.Second

func bounded(_ int, cfg *goccl.Config) { cfg.OpTimeout = orderLimit / 2 }

// orderComms makes communicators of all GPUs, by rank.
func orderComms(t *testing.T, comms int) [][]*goccl.Comm {
	t.Helper()
	n, open := commtest.GPUs(t)
	if gpus, err := cuda.Count(); err != nil || gpus < 2 {
		t.Skip("fewer than two GPUs: ", err)
	}
	byRank := make([][]*goccl.Comm, n)
	for range comms {
		for r, c := range commtest.New(t, n, open, bounded) {
			byRank[r] = append(byRank[r], c)
		}
	}
	return byRank
}

// Random calls of all ranks, on streams that each rank chooses, are compared with the same calls one after the other:
// see orderScript.
func TestGPUOrderRandom(t *testing.T) {
	const comms, perRound = 2, 200
	byRank := orderComms(t, comms)
	n := len(byRank)
	ranks := make([]*orderRank, n)
	if err := commtest.Each(n, func(r int) (err error) {
		ranks[r], err = newOrderRank(byRank[r], *orderSeed)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	script, r := newOrderScript(*orderSeed, n, comms), rand.New(rand.NewPCG(*orderSeed, math.MaxUint64))
	want, got := make([][][]uint32, comms), make([][][]uint32, comms)
	for c := range comms {
		for range n {
			want[c], got[c] = append(want[c], make([]uint32, orderWords)), append(got[c], make([]uint32, orderWords))
		}
	}
	begin, done, wrong, hung := time.Now(), 0, 0, 0
	for round := 0; done < *orderOperations && hung == 0; round++ {
		steps, ops := script.round(perRound)
		touched := refresh(r, want, steps)
		results := make(chan error, n)
		var ready sync.WaitGroup
		ready.Add(n)
		for k := range n {
			go func() { results <- exchangeRound(ranks[k], want, got, touched, k, steps, &ready) }()
		}
		ready.Wait() // all inputs are written: the model may write to its own memory
		for i := range steps {
			if s := &steps[i]; s.kind == orderEager || s.kind == orderLaunch {
				for j := range s.ops {
					s.ops[j].run(want[s.ops[j].comm])
				}
			}
		}
		for range n {
			if err := <-results; err != nil {
				hung++
				t.Errorf("seed %d, round %d: %v", *orderSeed, round, err)
			}
		}
		done += ops
		for c := 0; c < comms && hung == 0; c++ {
			for k := range n {
				if at := differs(got[c][k], want[c][k], touched[c]); at >= 0 {
					wrong++
					t.Errorf("seed %d, round %d: communicator %d, rank %d: word %d is %#x, want %#x; last written by %v", *orderSeed,
						round, c, k, at, got[c][k][at], want[c][k][at], lastWriter(steps, c, at, n))
				}
			}
		}
		if wrong > 10 {
			break
		}
	}
	fmt.Printf("order: %d operations, %d wrong, %d hung (%d GPUs, seed %d, %v)\n", done, wrong, hung, n, *orderSeed,
		time.Since(begin).Round(time.Millisecond))
	if hung == 0 {
		for _, k := range ranks {
			if err := k.close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// refresh gives new values to all words of the model that the steps access, also to those that they write, so that no
// earlier result is right any more. It returns the accessed spans, by communicator and part.
func refresh(r *rand.Rand, mem [][][]uint32, steps []orderStep) [][4]span {
	touched := make([][4]span, len(mem))
	touch := func(comm, from, to int) {
		for i, p := range orderParts {
			if p.from <= from && from < p.to {
				t := &touched[comm][i]
				if t.to == 0 {
					t.from = from
				}
				t.from, t.to = min(t.from, from), max(t.to, to)
			}
		}
	}
	for i := range steps {
		for _, o := range steps[i].ops {
			touch(o.comm, o.src, o.src+o.reads(len(mem[0])))
			touch(o.comm, o.dst, o.dst+o.writes(len(mem[0])))
		}
	}
	for c := range touched {
		for _, t := range touched[c] {
			for _, words := range mem[c] {
				x := r.Uint32()
				for i := range words[t.from:t.to] {
					x = x*1664525 + 1013904223
					words[t.from+i] = x
				}
			}
		}
	}
	return touched
}

// exchangeRound runs a rank's part of a round: inputs, steps, results.
func exchangeRound(k *orderRank, in, out [][][]uint32, touched [][4]span, rank int, steps []orderStep,
	ready *sync.WaitGroup) error {
	var errs []error
	move := func(copy func(c int, p device.Ptr, t span) error) {
		for c := range touched {
			for _, t := range touched[c] {
				if t.from < t.to {
					errs = append(errs, copy(c, k.mem[c].Ptr().Add(4*int64(t.from)), t))
				}
			}
		}
	}
	dev := k.comms[0].Device()
	move(func(c int, p device.Ptr, t span) error { return dev.CopyIn(p, bytesOf(in[c][rank][t.from:t.to])) })
	ready.Done()
	ready.Wait() // a peer's stores must not arrive before this rank's memory is poisoned
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := k.run(steps, orderLimit); err != nil {
		return err
	}
	move(func(c int, p device.Ptr, t span) error { return dev.CopyOut(bytesOf(out[c][rank][t.from:t.to]), p) })
	return errors.Join(errs...)
}

// differs returns the first accessed word that differs, or -1.
func differs(got, want []uint32, touched [4]span) int {
	for _, t := range touched {
		for i := t.from; i < t.to; i++ {
			if got[i] != want[i] {
				return i
			}
		}
	}
	return -1
}

func lastWriter(steps []orderStep, comm, at, n int) string {
	last := "nobody"
	for i := range steps {
		if s := &steps[i]; s.kind == orderEager || s.kind == orderLaunch {
			for j := range s.ops {
				if o := &s.ops[j]; o.comm == comm && o.dst <= at && at < o.dst+o.writes(n) {
					last = fmt.Sprintf("%v in step %d of %d", o, i, len(steps))
				}
			}
		}
	}
	return last
}

// floats is a rank's memory for some operations, count floats each: the inputs, then the outputs.
type floats struct {
	c     *goccl.Comm
	mem   device.Allocation
	s     [2]*cuda.Stream
	x     *cuda.Exec
	count int64
}

const orderFloats = 512 // 2 KB

func newFloats(c *goccl.Comm, ops int64) (f *floats, err error) {
	f = &floats{c: c, count: ops}
	for i := range f.s {
		if f.s[i], err = commtest.GPUStream(c); err != nil {
			return f, err
		}
	}
	f.mem, err = c.Device().Alloc(2 * ops * orderFloats * 4)
	return f, err
}

// fill gives operation i of rank r the values i+j+r, and poisons the outputs.
func (f *floats) fill(round int) error {
	var words []uint32
	for i := range int(f.count) {
		for j := range orderFloats {
			words = append(words, math.Float32bits(float32(round+i+j%7+f.c.Rank())))
		}
	}
	for range int(f.count) * orderFloats {
		words = append(words, 0xffffffff)
	}
	return f.c.Device().CopyIn(f.mem.Ptr(), bytesOf(words))
}

func (f *floats) allReduce(i int64, s device.Stream) error {
	p := f.mem.Ptr().Add(4 * orderFloats * i)
	return f.c.AllReduce(p, p.Add(4*orderFloats*f.count), orderFloats, datatype.Float32, datatype.Sum, s)
}

func (f *floats) check(round int) error {
	for _, s := range f.s {
		k := captured{c: f.c, s: s}
		if err := k.wait(orderLimit); err != nil {
			return fmt.Errorf("rank %d: %w", f.c.Rank(), err)
		}
	}
	words := make([]uint32, f.count*orderFloats)
	if err := f.c.Device().CopyOut(bytesOf(words), f.mem.Ptr().Add(4*orderFloats*f.count)); err != nil {
		return err
	}
	n, wrong := f.c.WorldSize(), 0
	for i, w := range words {
		want := float32(n*(round+i/orderFloats+i%orderFloats%7) + n*(n-1)/2)
		if math.Float32frombits(w) != want {
			wrong++
		}
	}
	if wrong > 0 {
		return fmt.Errorf("rank %d, round %d: %d of %d elements are wrong", f.c.Rank(), round, wrong, len(words))
	}
	return nil
}

func (f *floats) close() error {
	return errors.Join(f.x.Close(), f.s[0].Close(), f.s[1].Close(), f.mem.Close())
}

// Two streams of one capture without an edge between them, in alternation, 4 operations on each, replayed 100 times.
func TestGPUOrderInOneCapture(t *testing.T) {
	if err := orderInOneCapture(orderComms(t, 1), (*floats).check); err != nil {
		t.Fatal(err)
	}
}

func orderInOneCapture(byRank [][]*goccl.Comm, check func(*floats, int) error) error {
	const ops = 8
	return commtest.Each(len(byRank), func(r int) error {
		f, err := newFloats(byRank[r][0], ops)
		if err != nil {
			return err
		}
		f.x, err = commtest.Capture(f.s[0], cuda.CaptureRelaxed, func() error {
			errs := []error{streamAfter(f.s[1], f.s[0])}
			for i := range int64(ops) {
				errs = append(errs, f.allReduce(i, f.s[i%2]))
			}
			return errors.Join(append(errs, streamAfter(f.s[0], f.s[1]))...)
		})
		for round := 0; round < 4 && err == nil; round++ {
			err = f.fill(round)
			for i := 0; i < 25 && err == nil; i++ {
				err = f.x.Launch(f.s[0])
			}
			if err == nil {
				err = check(f, round)
			}
		}
		if err != nil {
			return err
		}
		return f.close()
	})
}

// A graph on one stream and eager work on another, 200 rounds, without events between them.
func TestGPUOrderOfReplaysAndEagerWork(t *testing.T) {
	if err := orderOfReplaysAndEagerWork(orderComms(t, 1), (*floats).check); err != nil {
		t.Fatal(err)
	}
}

func orderOfReplaysAndEagerWork(byRank [][]*goccl.Comm, check func(*floats, int) error) error {
	return commtest.Each(len(byRank), func(r int) error {
		f, err := newFloats(byRank[r][0], 2)
		if err != nil {
			return err
		}
		f.x, err = commtest.Capture(f.s[0], cuda.CaptureRelaxed, func() error { return f.allReduce(0, f.s[0]) })
		for round := 0; round < 4 && err == nil; round++ {
			err = f.fill(round)
			for i := 0; i < 50 && err == nil; i++ {
				err = errors.Join(f.x.Launch(f.s[0]), f.allReduce(1, f.s[1]))
			}
			if err == nil {
				err = check(f, round)
			}
		}
		if err != nil {
			return err
		}
		return f.close()
	})
}
