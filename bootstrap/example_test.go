package bootstrap_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/goccl/goccl/bootstrap"
)

// Three ranks of one process tell each other their names.
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

// One process makes the id and hands it to the others, here to goroutines.
func ExampleTCP_Init() {
	id, err := bootstrap.NewUniqueID()
	if err != nil {
		fmt.Println(err)
		return
	}
	var wg sync.WaitGroup
	for rank := range 2 {
		wg.Go(func() {
			b := bootstrap.NewTCP(rank, 2)
			if err := b.Init(context.Background(), id); err != nil {
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
