package cuda

import (
	"context"
	"fmt"
	"runtime"
	"time"
)

// spins is the number of queries that poll makes before it sleeps: about 50 µs, more than any small collective takes.
const spins = 128

// poll queries until done, an error, or the end of ctx. A sleep lasts at most an eighth of the time already waited and
// at most 500 µs, so that waiting costs little and overshoots little.
func poll(ctx context.Context, query func() (bool, error)) error {
	var start time.Time
	for i := 0; ; i++ {
		if ok, err := query(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the GPU has not finished: %w", context.Cause(ctx))
		default:
		}
		if i == 0 {
			start = time.Now()
		}
		if i < spins {
			if i%16 == 15 {
				runtime.Gosched()
			}
			continue
		}
		time.Sleep(min(max(time.Since(start)/8, 10*time.Microsecond), 500*time.Microsecond))
	}
}
