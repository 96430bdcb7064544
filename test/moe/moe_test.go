package moe

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goccl/goccl/engine/moe"
	"github.com/goccl/goccl/test/commtest"
)

func TestMain(m *testing.M) {
	commtest.Main(m, map[string]func(*commtest.Process) error{"cases": cases, "survive": survive, "mourn": mourn})
}

// shapes returns the shapes to test with a number of ranks.
func shapes(ranks int) []moe.Shape {
	return []moe.Shape{
		{Hidden: 128, TopK: 2, Experts: 2 * ranks},
		{Hidden: 256, TopK: 8, Experts: 8 * ranks},
		{Hidden: 8, TopK: 1, Experts: ranks},
		{Hidden: 136},
		{Layout: moe.ZeroCopy, Hidden: 256, TopK: 4, Experts: 4 * ranks},
		{Layout: moe.ZeroCopy, Hidden: 136},
		{Layout: moe.Experts, Hidden: 128, TopK: 3, Experts: 4 * ranks},
		{Layout: moe.Experts, Hidden: 256, TopK: 8, Experts: 8 * ranks},
	}
}

// all runs cases of every shape and routing on one rank; every rank runs the same.
func all(r *Rank, seed uint64, most int) error {
	random := rand.New(rand.NewPCG(seed, 3))
	for _, shape := range shapes(r.C.WorldSize()) {
		for i, routing := range Routings {
			quantize := shape.Hidden%128 == 0 && random.IntN(2) == 0
			tokens := most
			if shape.Layout == moe.Experts { // always packets
				tokens = min(tokens, size.PacketTokens)
			}
			c := Draw(random.Uint64(), r.C.WorldSize(), tokens, shape, routing, quantize)
			if err := r.Run(c, i%2 == 0); err != nil {
				return err
			}
		}
	}
	return nil
}

var size = moe.Size{Bytes: 4 << 20, Tokens: 100, PacketTokens: 40}

func TestHost(t *testing.T) {
	sizes := []int{1, 2, 3, 5}
	if testing.Short() { // as under the race detector
		sizes = []int{3}
	}
	for _, n := range sizes {
		comms := commtest.New(t, n, commtest.Host, nil)
		seed := rand.Uint64()
		if err := commtest.Each(n, func(r int) error {
			rank, err := NewRank(comms[r], size)
			if err != nil {
				return err
			}
			return errors.Join(all(rank, seed, 24), rank.Close())
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// cases is the task of a rank's process.
func cases(k *commtest.Process) error {
	c, err := k.Comm(k.Boot)
	if err != nil {
		return err
	}
	r, err := NewRank(c, size)
	if err == nil {
		err = errors.Join(all(r, k.Seed, 30), r.Close())
	}
	return errors.Join(err, c.Close())
}

func TestProcesses(t *testing.T) {
	commtest.Start(t, commtest.Task{Do: "cases", Size: 4, OpTimeout: 30 * time.Second}).Await("done",
		commtest.Everyone(4), time.Minute)
}

// TestGPU runs the same cases on GPUs: eager, and as graphs that are replayed. Some have more tokens than travel as
// packets.
func TestGPU(t *testing.T) {
	n, open := commtest.GPUs(t)
	for _, graph := range []bool{false, true} {
		comms := commtest.New(t, n, open, nil)
		seed := rand.Uint64()
		if err := commtest.Each(n, func(r int) error {
			rank, err := NewRank(comms[r], moe.Size{Bytes: 64 << 20, Tokens: 400, PacketTokens: size.PacketTokens})
			if err != nil {
				return err
			}
			rank.Graph = graph
			return errors.Join(all(rank, seed, 40), all(rank, seed+1, 300), rank.Close())
		}); err != nil {
			t.Fatalf("graph %v: %v", graph, err)
		}
	}
}
