package faults_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/goccl/goccl/test/commtest"
)

// A stopped process's kernels continue, and its host side continues where it stopped: memory that the survivors have
// got back must stay theirs, on GPUs too.
func TestGPUFaultsStop(t *testing.T) {
	commtest.GPUs(t)
	stopAndGoOn(t, commtest.Task{Do: "reuse", Size: 2, Victim: 1, OpTimeout: 2 * time.Second, Rounds: 2, CUDA: true})
}

// Ranks are killed in a split and in a shrink; the others agree on the remaining ranks and run all-reduces.
func TestGPUFaultsKill(t *testing.T) {
	commtest.GPUs(t)
	for _, event := range []int{eventKillSplit, eventKillShrink} {
		seed := uint64(1)
		for drawRound(rand.New(rand.NewPCG(seed, 3))).event != event {
			seed++
		}
		t.Run(fmt.Sprint("event ", event), func(t *testing.T) {
			modelJob(t, commtest.Task{Do: "model", Size: modelRanks, Rounds: 1, CUDA: true, Seed: seed}, make([]int, numEvents))
		})
	}
}
