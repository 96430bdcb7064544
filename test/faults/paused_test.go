package faults_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/test/commtest"
)

// paused stops the victim's process during NewComm, At steps of 100 µs after its start.
func paused(k *commtest.Process) error {
	if err := k.Boot.Barrier(context.Background()); err != nil {
		return err
	}
	if k.Rank == k.Victim {
		k.Say("running", nil)
		time.AfterFunc(time.Duration(k.At)*100*time.Microsecond,
			func() { _ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP) })
	}
	c, err := k.Comm(k.Boot)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return k.Boot.Barrier(context.Background())
}

// TestPausedInSetUp: only the timeout of the whole set-up applies, 60 s here, and no limit of a single step.
func TestPausedInSetUp(t *testing.T) {
	t.Parallel()
	for at := range 6 {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			j := commtest.Start(t, commtest.Task{Do: "paused", Size: 3, Victim: at % 3, At: 5 * at})
			j.Await("running", []int{at % 3}, time.Minute)
			time.Sleep(6 * time.Second)
			j.Signal(at%3, syscall.SIGCONT)
			j.Await("done", commtest.Everyone(3), time.Minute)
		})
	}
}
