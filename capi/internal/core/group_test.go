package core

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

// inTime runs f, which must not hang.
func inTime(t *testing.T, what string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s hangs", what)
	}
}

// Ranks, of one thread or of several, name the communicators of a group in any order, as in NCCL.
func TestGroupInAnyOrder(t *testing.T) {
	a, b := world(t, 2, Config{}), world(t, 2, Config{})
	reqs := func(comms ...Handle) (out []Request) {
		for _, c := range comms {
			p, x := floats(t, 1)
			x[0] = 1
			out = append(out, allReduce(c, p, p, 1))
		}
		return out
	}
	one := reqs(a[0], b[0], b[1], a[1])
	inTime(t, "a0 b0 b1 a1 in one thread", func() error { return Submit(one) })
	mine, theirs := reqs(a[0], b[0]), reqs(b[1], a[1])
	inTime(t, "a0 b0 | b1 a1", func() error {
		other := make(chan error, 1)
		go func() { other <- Submit(theirs) }()
		if err := Submit(mine); err != nil {
			return err
		}
		return <-other
	})
}

// Random groups: every rank is a thread, or one thread runs all ranks. All submit the same requests on several
// communicators, in different orders of the communicators. The order within one communicator is the same on all ranks.
func TestRandomGroups(t *testing.T) {
	const n, kinds, most = 3, 4, 6
	rounds := 500
	if os.Getenv("GOCCL_FULL") != "" {
		rounds = 50000
	}
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	var all [kinds][]Handle
	for k := range all {
		all[k] = world(t, n, Config{})
	}
	var devs [n]*Device
	var streams [n][2]uintptr
	var memory [n]uintptr
	var x [n][]float32
	for r := range n {
		d, err := deviceOf(r)
		if err != nil {
			t.Fatal(err)
		}
		devs[r] = d
		if streams[r][1], err = StreamCreate(d); err != nil { // the other is the synchronous one
			t.Fatal(err)
		}
		memory[r], x[r] = floats(t, 2*most)
	}
	for round := range rounds {
		items := make([]int, 1+rng.IntN(most)) // the communicator of each
		for i := range items {
			items[i] = rng.IntN(kinds)
		}
		var groups [n][]Request
		for r := range n {
			of := [kinds][]Request{}
			for i, k := range items {
				x[r][i], x[r][most+i] = float32(round%100+i+r), -1
				q := allReduce(all[k][r], memory[r]+uintptr(4*i), memory[r]+uintptr(4*(most+i)), 1)
				q.Stream = streams[r][rng.IntN(2)]
				of[k] = append(of[k], q)
			}
			for range items { // any merge of the communicators' orders
				for {
					if k := rng.IntN(kinds); len(of[k]) > 0 {
						groups[r], of[k] = append(groups[r], of[k][0]), of[k][1:]
						break
					}
				}
			}
		}
		inTime(t, fmt.Sprintf("seed %d, round %d, communicators %v", seed, round, items), func() error {
			if rng.IntN(2) == 0 {
				return Submit(slices.Concat(groups[:]...))
			}
			done := make(chan error, n)
			for r := range n {
				go func() { done <- Submit(groups[r]) }()
			}
			for range n {
				if err := <-done; err != nil {
					return err
				}
			}
			return nil
		})
		for r := range n {
			if err := StreamSynchronize(within(t, time.Minute), devs[r], streams[r][1]); err != nil {
				t.Fatal(err)
			}
			for i := range items {
				if want := float32(n*(round%100+i) + n*(n-1)/2); x[r][most+i] != want {
					t.Fatalf("seed %d, round %d, item %d of %v: rank %d has %v, want %v", seed, round, i, items, r, x[r][most+i], want)
				}
			}
		}
	}
}
