package bootstrap

import (
	"context"
	"errors"
	"sync"
)

// Serve calls handle with the messages of every other rank of b that carry the tag. Each rank has a goroutine of tasks,
// and ended, if not nil, is called when it is over: with the error of handle, or of Recv when the bootstrap is closed,
// the rank is gone, or ctx ends. A rank may be silent for any time.
func Serve(ctx context.Context, tasks *sync.WaitGroup, b Bootstrap, tag int,
	handle func(peer int, message []byte) error, ended func(peer int, err error)) {
	for p := range b.WorldSize() {
		if p == b.Rank() {
			continue
		}
		tasks.Go(func() {
			var err error
			for err == nil {
				var message []byte
				if message, err = b.Recv(ctx, p, tag); err == nil {
					err = handle(p, message)
				} else if errors.Is(err, ErrTimeout) && ctx.Err() == nil {
					err = nil
				}
			}
			if ended != nil {
				ended(p, err)
			}
		})
	}
}
