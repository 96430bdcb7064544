package tcp

import (
	"testing"
	"time"

	"github.com/goccl/goccl/transport/nettest"
)

// While a goroutine polls again and again, no other one takes what arrives; afterwards one does, also for what arrived
// before.
func TestPollersAreLeftAlone(t *testing.T) {
	n := testNet(NetOptions{Sockets: 1})(t)
	x, y := nettest.Join(t, nettest.Open(t, n), nettest.Open(t, n), 4096)
	port := y.Port.(*Port)
	put := func() {
		t.Helper()
		if err := x.Put(x.Src, 0, x.Dst, 0, 8, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	put()
	eventually(t, "a put arrives", func() bool { return y.Arrived(1) == 1 })
	for round := range uint64(3) {
		port.Polling(1)
		time.Sleep(20 * time.Millisecond) // the goroutine that took the last arrival looks on for some time
		before := y.Arrived(1)
		put()
		time.Sleep(20 * time.Millisecond)
		if got := y.Arrived(1); got != before {
			t.Fatalf("round %d: %d puts were taken without a poll", round, got-before)
		}
		eventually(t, "a poll takes the put", func() bool { port.Poll(); return y.Arrived(1) == before+1 })
		put()
		port.Polling(-1)
		eventually(t, "the put before the end of polling arrives", func() bool { return y.Arrived(1) == before+2 })
		put()
		eventually(t, "a put after it arrives", func() bool { return y.Arrived(1) == before+3 })
	}
}
