package faults_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/test/commtest"
)

// restart runs all-reduces until the victim dies, shrinks, grows by a new process, and goes on.
func restart(k *commtest.Process) error {
	c, u, err := k.Sums(k.Boot, 3)
	if err != nil {
		return err
	}
	k.Say("running", nil)
	for err == nil {
		err = u.Once(1)
	}
	k.Say("error", err)
	small, err := c.Shrink(context.Background(), nil, true)
	if err != nil {
		return err
	}
	var id *bootstrap.UniqueID
	if small.Rank() == 0 {
		made, err := bootstrap.NewUniqueID()
		if err != nil {
			return err
		}
		id = &made
		k.Say("id", errors.New(hex.EncodeToString(made[:])))
	}
	big, err := small.Grow(context.Background(), k.Size, id)
	if err != nil {
		return err
	}
	return errors.Join(useGrown(k, big), u.Close(), small.Close(), c.Close())
}

// restarted is the new process, the last rank of the grown communicator.
func restarted(k *commtest.Process) error {
	b, err := hex.DecodeString(k.ID)
	if err != nil {
		return err
	}
	id, err := bootstrap.ParseUniqueID(b)
	if err != nil {
		return err
	}
	boot, err := bootstrap.JoinID(context.Background(), id, k.World-1, k.World)
	if err != nil {
		return err
	}
	c, err := k.Comm(boot)
	if err != nil {
		return err
	}
	return errors.Join(useGrown(k, c), boot.Close())
}

func useGrown(k *commtest.Process, c *goccl.Comm) error {
	u, err := commtest.NewSums(c)
	if err != nil {
		return err
	}
	for range 20 {
		if err := u.Once(3); err != nil {
			return fmt.Errorf("grown to %d: %w", c.WorldSize(), err)
		}
	}
	k.Say("grown", nil)
	return errors.Join(c.Finalize(context.Background()), u.Close(), c.Close())
}

// A killed rank is started again: the survivors shrink, grow by the new process, and all go on.
func TestRestartedRank(t *testing.T) {
	commtest.OnDevices(t, func(t *testing.T, tk commtest.Task) {
		tk.Do, tk.Size, tk.Victim = "restart", min(tk.Size, 4), 1
		survivors := commtest.Others(tk.Size, tk.Victim)
		j := commtest.Start(t, tk)
		j.Await("running", commtest.Everyone(tk.Size), time.Minute)
		j.Signal(tk.Victim, syscall.SIGKILL)
		id := j.Await("id", []int{0}, time.Minute)[0].Text
		again := commtest.Start(t, commtest.Task{Do: "restarted", Size: 1, Victim: -1, CUDA: tk.CUDA, ID: id, World: tk.Size})
		j.Await("grown", survivors, time.Minute)
		again.Await("done", []int{0}, time.Minute)
		j.Await("done", survivors, time.Minute)
		j.Clean()
		again.Clean()
	})
}
