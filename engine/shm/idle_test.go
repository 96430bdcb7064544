package shm_test

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/job/bootstrap"
)

func processTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestWaitingRanksSleep lets all ranks wait a second for the last one: they must leave the processor to others.
func TestWaitingRanksSleep(t *testing.T) {
	const n, late = 8, time.Second
	boots := bootstrap.NewLocalGroup(n)
	ends := make([]*end, n)
	each(t, n, func(r int) (err error) {
		ends[r], err = open(boots[r], 64)
		if err != nil {
			return err
		}
		return ends[r].run(10, 64)
	})
	before, began := processTime(t), time.Now()
	each(t, n, func(r int) error {
		if r == 3 {
			time.Sleep(late)
		}
		return ends[r].run(1, 64)
	})
	used, took := processTime(t)-before, time.Since(began)
	t.Logf("%d ranks used %v in %v", n, used, took)
	if took < late || used > took/10 {
		t.Errorf("%d ranks used %v of processor time in a wait of %v", n, used, took)
	}
	each(t, n, func(r int) error {
		if err := ends[r].stream.Synchronize(context.Background()); err != nil {
			return err
		}
		return ends[r].close()
	})
}
