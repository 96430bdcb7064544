package nettest

import (
	"fmt"
	"testing"
	"time"

	"github.com/goccl/goccl/transport"
)

// held sends more small puts than one system call takes, and puts of every kind between them, while the Peer is held.
func held(t *testing.T, c Config) {
	const most = 256 << 10
	x, y := pair(t, c, most)
	b, ok := any(x.Peer).(transport.Batcher)
	if !ok {
		t.Skip("the network sends each put by itself")
	}
	begin := time.Now()
	for round := range uint64(20) {
		b.Hold()
		for i := range 50 {
			size := []int{0, 8, 1000, 64 << 10, most}[i%5]
			if err := x.Put(x.Src, 0, x.Dst, 0, int64(size), 7, nil); err != nil {
				t.Fatal(fmt.Errorf("put %d of round %d: %w", i, round, err))
			}
		}
		b.Release()
		y.wait(t, 7, (round+1)*50)
	}
	x.flush(t)
	if took := time.Since(begin); took > 5*time.Second { // what keeps a connection alive would send them in the end
		t.Fatalf("20 rounds of 50 puts took %v: Release did not send", took)
	}
}
