package moe

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/engine/moe"
	"github.com/goccl/goccl/test/commtest"
)

// Masked is c as the ranks that are not masked see it: masked ranks have no tokens, and lists name the experts that
// serve. What the ranks give remains c's.
func (c *Case) Masked(m moe.Mask) *Case {
	x := *c
	x.Name = fmt.Sprintf("%s, %+v", c.Name, m)
	x.Given, x.Tokens, x.Index = c.Index, slices.Clone(c.Tokens), slices.Clone(c.Index)
	x.Weights, x.X = slices.Clone(c.Weights), slices.Clone(c.X)
	for s := range c.Ranks {
		if m.Gone[s] {
			x.Tokens[s], x.Index[s], x.Weights[s], x.X[s] = 0, nil, nil, nil
			continue
		}
		x.Index[s] = slices.Clone(c.Index[s])
		for i, e := range x.Index[s] {
			switch {
			case c.Shape.TopK == 0:
				if m.Gone[i%c.Ranks] {
					x.Index[s][i] = 0
				}
			case e < 0 || !m.Gone[int(e)/(c.Shape.Experts/c.Ranks)]:
			case m.Replicas == nil || len(m.Replicas) != c.Shape.Experts:
				x.Index[s][i] = -1
			default:
				x.Index[s][i] = int64(m.Replicas[e])
			}
		}
	}
	return &x
}

// drawMask draws a mask of the given ranks, with replicas of most experts on other ranks, or without replicas.
func drawMask(r *rand.Rand, gone []bool, experts int) moe.Mask {
	m := moe.Mask{Gone: gone}
	if experts == 0 || r.IntN(4) == 0 {
		return m
	}
	local := experts / len(gone)
	for range experts {
		x := r.IntN(experts)
		for gone[x/local] {
			x = r.IntN(experts)
		}
		if r.IntN(4) == 0 {
			x = -1
		}
		m.Replicas = append(m.Replicas, int32(x))
	}
	return m
}

// masked runs a case of each shape under a new mask of the same ranks. All ranks of random draw the same.
func masked(r *Rank, random *rand.Rand, gone []bool, most int) error {
	for _, shape := range shapes(len(gone)) {
		m := drawMask(random, gone, shape.Experts)
		if err := r.M.SetMask(context.Background(), m); err != nil {
			return err
		}
		r.Masked = true
		for range 2 {
			routing := Routings[random.IntN(len(Routings))]
			c := Draw(random.Uint64(), len(gone), min(most, size.PacketTokens), shape, routing,
				shape.Hidden%128 == 0 && random.IntN(2) == 0).Masked(m)
			if err := r.Run(c, random.IntN(2) == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// Masks change between steps: ranks are masked, do other things, and come back.
func TestMasks(t *testing.T) {
	change(t, commtest.New(t, 4, commtest.Host, nil), false)
}

// TestGPUMasks is TestMasks on GPUs: eager, and as graphs that are replayed.
func TestGPUMasks(t *testing.T) {
	n, open := commtest.GPUs(t)
	for _, graph := range []bool{false, true} {
		change(t, commtest.New(t, n, open, nil), graph)
	}
}

func change(t *testing.T, comms []*goccl.Comm, graph bool) {
	t.Helper()
	n, seed := len(comms), rand.Uint64()
	rounds := make([][]bool, 6)
	random := rand.New(rand.NewPCG(seed, 9))
	for i := range rounds {
		rounds[i] = make([]bool, n)
		for r := range n {
			rounds[i][r] = random.IntN(3) == 0
		}
		rounds[i][random.IntN(n)] = false
	}
	rounds = append(rounds, make([]bool, n))
	if err := commtest.Each(n, func(r int) error {
		rank, err := NewRank(comms[r], size)
		if err != nil {
			return err
		}
		rank.Graph = graph
		err = all(rank, seed, 8)
		for i, gone := range rounds {
			if err == nil && !gone[r] {
				err = masked(rank, rand.New(rand.NewPCG(seed, uint64(i))), gone, 24)
			}
		}
		return errors.Join(err, rank.Close())
	}); err != nil {
		t.Fatalf("graph %v, seed %d: %v", graph, seed, err)
	}
}

// mourn is a rank whose peers die one after the other. Those that remain mask them and go on.
func mourn(k *commtest.Process) error {
	c, err := k.Comm(k.Boot)
	if err != nil {
		return err
	}
	r, err := NewRank(c, size)
	if err != nil {
		return err
	}
	gone := make([]bool, k.Size)
	step := func() error { return all(r, k.Seed, 12) }
	for i, victim := range k.Victims {
		k.Say(fmt.Sprint("running ", i), nil)
		for err = nil; err == nil; {
			err = step()
		}
		if !errors.Is(err, goccl.ErrPeerDead) && !errors.Is(err, goccl.ErrAborted) {
			return fmt.Errorf("after death %d: %w", i, err)
		}
		k.Say(fmt.Sprint("ended ", i), nil)
		if err := r.renew(); err != nil {
			return err
		}
		gone[victim] = true
		random := func() *rand.Rand { return rand.New(rand.NewPCG(k.Seed, uint64(i))) }
		if err := masked(r, random(), slices.Clone(gone), 30); err != nil {
			return fmt.Errorf("without %v: %w", gone, err)
		}
		step = func() error { return masked(r, random(), slices.Clone(gone), 30) }
	}
	return errors.Join(r.Close(), c.Close())
}

// A rank is killed within steps, then another one. The waits of the others end; they mask it and get right results.
func TestDeathAndMask(t *testing.T) {
	const n = 5
	victims := []int{3, 0}
	j := commtest.Start(t, commtest.Task{Do: "mourn", Size: n, Victim: -1, Victims: victims, OpTimeout: 30 * time.Second})
	alive := commtest.Everyone(n)
	for i, victim := range victims {
		j.Await(fmt.Sprint("running ", i), alive, time.Minute)
		j.Signal(victim, syscall.SIGKILL)
		alive = slices.DeleteFunc(slices.Clone(alive), func(r int) bool { return r == victim })
		j.Await(fmt.Sprint("ended ", i), alive, 20*time.Second)
	}
	j.Await("done", alive, time.Minute)
}

// A mask that cannot be is refused, and changes nothing.
func TestMaskArguments(t *testing.T) {
	ranks := onHost(t, 2, 20*time.Second)
	k := ranks[0]
	for want, m := range map[string]moe.Mask{
		"rank 0 masks itself":      {Gone: []bool{true, false}},
		"all ranks are masked":     {Gone: []bool{true, true}},
		"a mask of 3 ranks":        {Gone: make([]bool, 3)},
		"replicas of 3 experts":    {Gone: []bool{false, true}, Replicas: make([]int32, 3)},
		"is expert 3, whose":       {Gone: []bool{false, true}, Replicas: []int32{0, 1, 3, 0}},
		"expert 2 is 4: want":      {Gone: []bool{false, true}, Replicas: []int32{0, 1, 4, 0}},
		"expert 3 is -2: want":     {Gone: []bool{false, true}, Replicas: []int32{0, 1, 0, -2}},
		"up to 1024":               {Gone: []bool{false, true}, Replicas: make([]int32, 2*1025)},
		"the replica of expert 2 ": {Gone: []bool{false, true}, Replicas: []int32{9, 9, 9, 9}},
	} {
		err := k.M.SetMask(t.Context(), m)
		if !errors.Is(err, goccl.ErrInvalidArgument) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	if err := commtest.Each(2, func(r int) error { return all(ranks[r], 5, 3) }); err != nil {
		t.Errorf("after refused masks: %v", err)
	}
}

// Ranks that do not agree get errors that say so, and the next SetMask works.
func TestMaskMismatch(t *testing.T) {
	ranks := onHost(t, 2, 20*time.Second)
	none := make([]bool, 2)
	late, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	for range 2 {
		if err := ranks[0].M.SetMask(late, moe.Mask{}); !errors.Is(err, goccl.ErrTimeout) {
			t.Errorf("one rank alone: %v", err)
		}
	}
	_ = commtest.Each(2, func(r int) error {
		err := ranks[r].M.SetMask(t.Context(), moe.Mask{Gone: none, Replicas: slices.Repeat([]int32{int32(r)}, 2)})
		if !errors.Is(err, goccl.ErrMismatch) && !errors.Is(err, goccl.ErrAborted) {
			t.Errorf("rank %d: %v", r, err)
		}
		return nil
	})
	if err := ranks[0].notify(fixed, 3); err == nil {
		t.Error("a notify after a SetMask that failed succeeds")
	}
	if err := commtest.Each(2, func(r int) error {
		return errors.Join(ranks[r].renew(), masked(ranks[r], rand.New(rand.NewPCG(1, 1)), none, 9))
	}); err != nil {
		t.Error(err)
	}
}

// A handle of an earlier mask is refused when the operation runs.
func TestMaskOldHandle(t *testing.T) {
	ranks := onHost(t, 1, 20*time.Second)
	k := ranks[0]
	n, err := k.M.HandleBytes(fixed)
	if err != nil {
		t.Fatal(err)
	}
	h := moe.Handle{Shape: fixed, Memory: k.memory(int(n), nil), Tokens: 1}
	err = errors.Join(k.M.Notify(moe.NotifyArgs{Handle: h, TopKIndex: k.memory(16, put([]int64{0, 1})), Stream: k.Stream}),
		k.sync(), k.M.SetMask(t.Context(), moe.Mask{}))
	if err != nil {
		t.Fatal(err)
	}
	// The operation may fail before its call has returned: then the call has the error, too.
	err = errors.Join(k.M.Combine(moe.CombineArgs{Handle: h, X: k.memory(128, nil), Rows: 1, Out: k.memory(128, nil),
		Stream: k.Stream}), k.sync())
	if !errors.Is(err, goccl.ErrInvalidUsage) || !strings.Contains(err.Error(), "latest SetMask") {
		t.Errorf("%v", err)
	}
}

// Abort ends masked operations, and no SetMask ends the abort.
func TestMaskAbort(t *testing.T) {
	ranks := onHost(t, 2, 20*time.Second)
	if err := commtest.Each(2, func(r int) error { return ranks[r].M.SetMask(t.Context(), moe.Mask{}) }); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- ranks[0].notify(fixed, 3) }()
	time.Sleep(10 * time.Millisecond)
	ranks[1].C.Abort(nil)
	if err := <-done; !blamed(err, goccl.ErrAborted, "moe_notify", 1) {
		t.Errorf("%v", err)
	}
	if err := ranks[1].M.SetMask(t.Context(), moe.Mask{}); !errors.Is(err, goccl.ErrAborted) {
		t.Errorf("after Abort: %v", err)
	}
}
