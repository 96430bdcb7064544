package bootstrap_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/goccl/goccl/job/bootstrap"
)

// Three ranks of one process exchange their names.
func ExampleNewLocalGroup() {
	ranks := bootstrap.NewLocalGroup(3)
	var wg sync.WaitGroup
	for _, b := range ranks {
		wg.Go(func() {
			names, err := b.AllGather(context.Background(), fmt.Appendf(nil, "rank-%d", b.Rank()))
			if b.Rank() == 0 {
				fmt.Printf("%s %v\n", names, err)
			}
		})
	}
	wg.Wait()
	for _, b := range ranks {
		_ = b.Close()
	}
	// Output: [rank-0 rank-1 rank-2] <nil>
}

// One process makes the id and passes it to the others, here to goroutines.
func ExampleJoinID() {
	id, err := bootstrap.NewUniqueID()
	if err != nil {
		fmt.Println(err)
		return
	}
	var wg sync.WaitGroup
	for rank := range 2 {
		wg.Go(func() {
			b, err := bootstrap.JoinID(context.Background(), id, rank, 2)
			if err != nil {
				fmt.Println(err)
				return
			}
			defer func() { _ = b.Close() }()
			if rank == 0 {
				_ = b.Send(context.Background(), 1, 0, []byte("hello"))
				return
			}
			msg, err := b.Recv(context.Background(), 0, 0)
			fmt.Printf("%s %v\n", msg, err)
		})
	}
	wg.Wait()
	// Output: hello <nil>
}

// A process started by torchrun, mpirun, srun, a Kubernetes indexed job or `goccl run` joins its job by the
// environment.
func ExampleJoin() {
	env, err := bootstrap.FromEnv()
	if errors.Is(err, bootstrap.ErrNoLauncher) {
		// Started by hand: a job with one rank.
		env, err = bootstrap.Env{WorldSize: 1}, nil
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	b, err := bootstrap.Join(context.Background(), env, bootstrap.WithTimeout(10*time.Second))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = b.Close() }()
	if err := b.Barrier(context.Background()); err != nil {
		fmt.Println(err)
	}
}

// The survivors get the report of a death and continue without the dead rank.
func ExampleBootstrap_failures() {
	job := bootstrap.NewLocal(3, bootstrap.WithLogger(slog.New(slog.DiscardHandler)))
	survivor := func(b bootstrap.Bootstrap) {
		dead := <-b.Failures()
		left, err := b.Sub(context.Background(), []int{0, 2}, 1)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer func() { _ = left.Close() }()
		parts, err := left.AllGather(context.Background(), fmt.Appendf(nil, "rank %d is now %d", b.Rank(), left.Rank()))
		if left.Rank() == 0 {
			fmt.Printf("%d died: %s %v\n", dead.Rank, parts, err)
		}
	}
	var ranks sync.WaitGroup
	for _, r := range []int{0, 2} {
		ranks.Go(func() { survivor(job.Ranks[r]) })
	}
	job.Kill(1) // in practice: kill -9, a panic, a broken cable
	ranks.Wait()
	// Output: 1 died: [rank 0 is now 0 rank 2 is now 1] <nil>
}

// SplitByHost gives the ranks of each host their own Bootstrap.
func ExampleSplitByHost() {
	var ranks sync.WaitGroup
	for _, b := range bootstrap.NewLocalGroup(4) {
		ranks.Go(func() {
			here, err := bootstrap.SplitByHost(context.Background(), b)
			if err != nil {
				fmt.Println(err)
				return
			}
			if here.Rank() == 0 {
				fmt.Println(here.WorldSize(), "ranks on this host")
			}
		})
	}
	ranks.Wait()
	// Output: 4 ranks on this host
}
