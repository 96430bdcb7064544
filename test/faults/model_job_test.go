package faults_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/test/commtest"
)

func TestModel(t *testing.T) {
	rounds := 12
	if os.Getenv("GOCCL_FULL") != "" {
		rounds = 2000
	}
	const workers = 4 // a job mostly waits for a stopped rank
	var total [workers][numEvents]int
	begun := time.Now()
	t.Run("jobs", func(t *testing.T) {
		for w := range workers {
			t.Run(fmt.Sprint(w), func(t *testing.T) {
				t.Parallel()
				for done := 0; done < rounds/workers && !t.Failed(); {
					tk := commtest.Task{Do: "model", Size: modelRanks, Rounds: min(12, rounds/workers-done), Seed: rand.Uint64()}
					done += modelJob(t, tk, total[w][:])
				}
			})
		}
	})
	var events [numEvents]int
	for _, w := range total {
		for e, n := range w {
			events[e] += n
		}
	}
	t.Logf("%d rounds of %d processes, %v; splits, aborts, stops, kills among sums, in splits, in shrinks: %v", rounds,
		modelRanks, time.Since(begun).Round(time.Second), events)
}

// modelJob runs one job and returns the number of its rounds.
func modelJob(t *testing.T, tk commtest.Task, events []int) (rounds int) {
	tk.Victim = -1
	rng := rand.New(rand.NewPCG(tk.Seed, 3))
	var script []modelRound
	for len(script) < tk.Rounds && (len(script) == 0 || script[len(script)-1].event < eventKill) {
		script = append(script, drawRound(rng))
		events[script[len(script)-1].event]++
	}
	if last := script[len(script)-1]; last.event >= eventKill {
		tk.Victim = last.victim
	}
	j := commtest.Start(t, tk)
	for i, r := range script {
		if r.event == eventStop {
			j.Await(fmt.Sprint("reused ", i), commtest.Others(modelRanks, r.victim), time.Minute)
			j.Signal(r.victim, syscall.SIGCONT)
		}
	}
	j.Await("done", commtest.Others(modelRanks, tk.Victim), 2*time.Minute)
	j.Clean()
	for _, rep := range j.Said() {
		if rep.Event == "noise" && !strings.Contains(rep.Text, "level=") {
			t.Errorf("rank %d: %s", rep.Rank, rep.Text)
		}
	}
	return len(script)
}
