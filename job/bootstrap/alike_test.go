package bootstrap

import (
	"context"
	"sync"
	"testing"
)

func TestMostAlike(t *testing.T) {
	keys := []string{"a", "b", "a", "c", "a"}
	var ranks sync.WaitGroup
	for r, b := range NewLocalGroup(len(keys)) {
		ranks.Go(func() {
			if n, err := MostAlike(context.Background(), b, keys[r]); n != 3 || err != nil {
				t.Errorf("rank %d: %d, %v, want 3", r, n, err)
			}
		})
	}
	ranks.Wait()
}
