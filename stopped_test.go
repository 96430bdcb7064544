package goccl_test

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
)

// reuseBytes is the size of the all-reduces in which a rank is stopped: most of their time they move data.
const reuseBytes = 32 << 20

// reuse repeats Rounds times: large all-reduces until the victim is stopped; the survivors shrink and reuse their
// receive buffers; the victim continues. The survivors' data must not change.
func (k *rank) reuse() error {
	for round := range k.Rounds {
		if err := k.reuseOnce(round); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	return nil
}

func (k *rank) reuseOnce(round int) (err error) {
	c, err := k.comm(k.boot)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var mem [2]device.Allocation
	for i := range mem {
		if mem[i], err = k.dev.Alloc(reuseBytes); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, mem[i].Close()) }()
	}
	s, err := k.dev.NewStream()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var failed error
	for i := 0; failed == nil; i++ {
		if i == 2 {
			k.say(fmt.Sprint("running ", round), nil)
		}
		if failed = c.AllReduce(mem[0].Ptr(), mem[1].Ptr(), reuseBytes/4, datatype.Int32, datatype.Sum, s); failed == nil {
			failed = c.Synchronize(context.Background(), s)
		}
	}
	if k.Rank == k.Victim {
		k.say(fmt.Sprint("late ", round), failed)
	} else {
		small, err := c.Shrink(context.Background(), []int{k.Victim}, true)
		if err != nil {
			return err
		}
		defer func() { _ = small.Close() }()
		mine := bytes.Repeat([]byte{0x5a}, reuseBytes)
		if err := k.dev.CopyIn(mem[1].Ptr(), mine); err != nil {
			return err
		}
		k.say(fmt.Sprint("reused ", round), nil)
	}
	if err := k.boot.Barrier(context.Background()); err != nil { // the victim continues, and its request has ended
		return err
	}
	if k.Rank == k.Victim {
		return nil
	}
	got := make([]byte, reuseBytes)
	if err := k.dev.CopyOut(got, mem[1].Ptr()); err != nil {
		return err
	}
	if wrong := reuseBytes - bytes.Count(got, []byte{0x5a}); wrong > 0 {
		k.say("overwritten", fmt.Errorf("%d bytes in round %d", wrong, round))
	}
	return nil
}

// A rank that was stopped in the middle of an all-reduce and continues after the others have given it up never writes
// to memory that they have reused.
func TestAStoppedRankWritesNothingLater(t *testing.T) {
	t.Parallel()
	tk := task{Do: "reuse", Size: 3, Victim: 1, OpTimeout: 4 * time.Second * slowness, Rounds: 3}
	if os.Getenv("GOCCL_FULL") != "" {
		tk.Rounds = 200
	}
	if testing.Short() {
		tk.Rounds = 2
	}
	const each = 15 / slowness
	for first := 0; first < tk.Rounds; first += each { // a process ends after two minutes
		tk := tk
		tk.Rounds = min(each, tk.Rounds-first)
		stopAndGoOn(t, tk)
	}
}

func stopAndGoOn(t *testing.T, tk task) {
	j := startJob(t, tk)
	for round := range tk.Rounds {
		j.await(fmt.Sprint("running ", round), everyone(tk.Size), time.Minute)
		time.Sleep(time.Duration(rand.Int64N(int64(60 * time.Millisecond))))
		j.signal(tk.Victim, syscall.SIGSTOP)
		j.await(fmt.Sprint("reused ", round), others(tk.Size, tk.Victim), time.Minute)
		j.signal(tk.Victim, syscall.SIGCONT)
		late := j.await(fmt.Sprint("late ", round), []int{tk.Victim}, time.Minute)[tk.Victim]
		if late.Kind != goccl.ErrTimeout.Error() && late.Kind != goccl.ErrAborted.Error() {
			t.Errorf("round %d: the stopped rank's error is %+v", round, late)
		}
	}
	j.await("done", everyone(tk.Size), time.Minute)
	j.clean()
	wrong := 0
	for _, r := range j.reports {
		if r.Event == "overwritten" {
			wrong++
			t.Logf("rank %d: %s", r.Rank, r.Text)
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d buffers were written to after their owners had them back", wrong, tk.Rounds*(tk.Size-1))
	}
}
