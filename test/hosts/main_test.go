package hosts_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/internal/netns"
	"github.com/goccl/goccl/test/commtest"
)

func TestMain(m *testing.M) {
	commtest.Main(m, map[string]func(*commtest.Process) error{
		"matrix": commtest.Matrix, "traffic": traffic, "rounds": rounds,
		"plans": plans, "planned": plannedTraffic,
		"quorum": quorum, "vote": voted,
	})
}

// start starts the task with rank r on host hosts[r] of a network, there by the program of tk.By if there is one.
func start(t *testing.T, w *netns.Network, hosts []int, tk commtest.Task) *commtest.Job {
	by := tk.By
	tk.Size, tk.By = len(hosts), map[int][]string{}
	for r, h := range hosts {
		tk.By[r] = append(w.On(h), by[r]...)
	}
	tk.Address = fmt.Sprintf("%s:%d", w.Address(hosts[0]), 20000)
	if tk.Victims == nil {
		tk.Victims = []int{}
	}
	tk.Victim = -1
	if len(tk.Victims) > 0 {
		tk.Victim = tk.Victims[0]
	}
	return commtest.Start(t, tk)
}

// traffic runs all-reduces until a failure, and then works on with the survivors. If Exit is set, a rank may be
// excluded from them.
func traffic(k *commtest.Process) error { return trafficOn(k, func(*goccl.Comm) error { return nil }) }

func trafficOn(k *commtest.Process, prepare func(c *goccl.Comm) error) error {
	c, err := k.Comm(k.Boot)
	if err != nil {
		return err
	}
	if err := prepare(c); err != nil {
		return err
	}
	u, err := commtest.NewSums(c)
	if err != nil {
		return err
	}
	for i := 0; err == nil; i++ {
		if i == 5 {
			k.Say("running", nil)
		}
		err = u.Once(3)
	}
	k.Say("error", err)
	var ge *goccl.Error
	if !errors.As(err, &ge) {
		return err
	}
	var late []int
	if errors.Is(err, goccl.ErrTimeout) { // the rank may live
		late = []int{ge.Peer}
	}
	small, err := c.Shrink(context.Background(), late, true)
	if err != nil && k.Exit && errors.As(err, &ge) {
		k.Say("excluded", err)
		return errors.Join(u.Close(), c.Close())
	}
	if err != nil {
		return err
	}
	v, err := commtest.NewSums(small)
	if err != nil {
		return err
	}
	if err := v.Once(3); err != nil {
		return fmt.Errorf("shrunk: %w", err)
	}
	k.Say("shrunk", nil)
	return errors.Join(small.Finalize(context.Background()), v.Close(), u.Close(), small.Close(), c.Close())
}

// rounds runs a number of checked all-reduces, which must all succeed, or, if Exit is set, may fail with an error that
// names a rank.
func rounds(k *commtest.Process) error {
	c, err := k.Comm(k.Boot)
	if err != nil {
		return err
	}
	u, err := commtest.NewSums(c)
	if err != nil {
		return err
	}
	for i := range k.Rounds {
		if i == 3 {
			k.Say("running", nil)
		}
		if err := u.Once(1); err != nil {
			var ge *goccl.Error
			if k.Exit && errors.As(err, &ge) && ge.Peer >= 0 {
				k.Say("error", err)
				return errors.Join(u.Close(), c.Close())
			}
			return err
		}
	}
	return errors.Join(c.Finalize(context.Background()), u.Close(), c.Close())
}
