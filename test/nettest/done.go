package nettest

import (
	"fmt"
	"testing"
	"time"
)

// dones waits for the end of each put before the next one begins. No put goes the other way and no flush is called, so
// nothing else asks for an acknowledgement.
func dones(t *testing.T, c Config) {
	const most = 1 << 20
	x, _ := pair(t, c, most)
	for i, size := range []int{0, 8, 64 << 10, 96 << 10, 256 << 10, most} {
		for range 100 {
			x.putDone(t, size, uint32(i))
		}
	}
}

func (s *Side) putDone(t *testing.T, size int, imm uint32) {
	t.Helper()
	done := make(chan error, 1)
	if err := s.Put(s.Src, 0, s.Dst, 0, int64(size), imm, func(err error) { done <- err }); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(fmt.Errorf("put of %d bytes: %w", size, err))
		}
	case <-time.After(limit):
		t.Fatalf("put of %d bytes: not done after %v", size, limit)
	}
}
