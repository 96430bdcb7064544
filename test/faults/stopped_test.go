package faults_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/commtest"
)

// reuseBytes is the size of the all-reduces in which a rank is stopped: most of their time they move data.
const reuseBytes = 32 << 20

// reuse repeats Rounds times: large all-reduces until the victim is stopped; the survivors shrink and reuse their
// receive buffers; the victim continues. The survivors' data must not change.
func reuse(k *commtest.Process) error {
	for round := range k.Rounds {
		if err := reuseOnce(k, round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

func reuseOnce(k *commtest.Process, round int) (err error) {
	c, err := k.Comm(k.Boot)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var mem [2]device.Allocation
	for i := range mem {
		if mem[i], err = k.Device.Alloc(reuseBytes); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, mem[i].Close()) }()
	}
	s, err := k.Device.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var failed error
	for i := 0; failed == nil; i++ {
		if i == 2 {
			k.Say(fmt.Sprint("running ", round), nil)
		}
		if failed = c.AllReduce(mem[0].Ptr(), mem[1].Ptr(), reuseBytes/4, datatype.Int32, datatype.Sum, s); failed == nil {
			failed = c.Synchronize(context.Background(), s)
		}
	}
	if k.Rank == k.Victim {
		k.Say(fmt.Sprint("late ", round), failed)
	} else {
		small, err := c.Shrink(context.Background(), []int{k.Victim}, true)
		if err != nil {
			return err
		}
		defer func() { _ = small.Close() }()
		mine := bytes.Repeat([]byte{0x5a}, reuseBytes)
		if err := k.Device.CopyIn(mem[1].Ptr(), mine); err != nil {
			return err
		}
		k.Say(fmt.Sprint("reused ", round), nil)
	}
	if err := k.Boot.Barrier(context.Background()); err != nil { // the victim continues, and its request has ended
		return err
	}
	if k.Rank == k.Victim {
		return nil
	}
	got := make([]byte, reuseBytes)
	if err := k.Device.CopyOut(got, mem[1].Ptr()); err != nil {
		return err
	}
	if wrong := reuseBytes - bytes.Count(got, []byte{0x5a}); wrong > 0 {
		k.Say("overwritten", fmt.Errorf("%d bytes in round %d", wrong, round))
	}
	return nil
}

// A rank that was stopped in the middle of an all-reduce and continues after the others have given it up never writes
// to memory that they have reused.
func TestAStoppedRankWritesNothingLater(t *testing.T) {
	t.Parallel()
	tk := commtest.Task{Do: "reuse", Size: 3, Victim: 1, OpTimeout: 4 * time.Second * commtest.Slowness, Rounds: 2}
	if os.Getenv("GOCCL_FULL") != "" {
		tk.Rounds = 200
	}
	const each = 15 / commtest.Slowness
	for first := 0; first < tk.Rounds; first += each { // a process ends after two minutes
		tk := tk
		tk.Rounds = min(each, tk.Rounds-first)
		stopAndGoOn(t, tk)
	}
}

func stopAndGoOn(t *testing.T, tk commtest.Task) {
	j := commtest.Start(t, tk)
	for round := range tk.Rounds {
		j.Await(fmt.Sprint("running ", round), commtest.Everyone(tk.Size), time.Minute)
		time.Sleep(time.Duration(rand.Int64N(int64(60 * time.Millisecond))))
		j.Signal(tk.Victim, syscall.SIGSTOP)
		j.Await(fmt.Sprint("reused ", round), commtest.Others(tk.Size, tk.Victim), time.Minute)
		j.Signal(tk.Victim, syscall.SIGCONT)
		late := j.Await(fmt.Sprint("late ", round), []int{tk.Victim}, time.Minute)[tk.Victim]
		if late.Kind != goccl.ErrTimeout.Error() && late.Kind != goccl.ErrAborted.Error() {
			t.Errorf("round %d: the stopped rank's error is %+v", round, late)
		}
	}
	j.Await("done", commtest.Everyone(tk.Size), time.Minute)
	j.Clean()
	wrong := 0
	for _, r := range j.Said() {
		if r.Event == "overwritten" {
			wrong++
			t.Logf("rank %d: %s", r.Rank, r.Text)
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d buffers were written to after their owners had them back", wrong, tk.Rounds*(tk.Size-1))
	}
}
