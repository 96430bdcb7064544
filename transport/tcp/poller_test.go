package tcp

import (
	"testing"
	"time"

	"github.com/goccl/goccl/test/nettest"
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

// While a goroutine polls again and again, one poll is bounded, although more has arrived: the goroutine has other work
// in between. What a poll leaves comes with the next ones, or after the end of polling.
func TestOnePollIsBounded(t *testing.T) {
	const size, puts = 32 << 10, 400
	n := testNet(NetOptions{Sockets: 1})(t)
	x, y := nettest.Join(t, nettest.Open(t, n), nettest.Open(t, n), size)
	port := y.Port.(*Port)
	flood := func() {
		t.Helper()
		for range puts {
			if err := x.Put(x.Src, 0, x.Dst, 0, size, 1, nil); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(50 * time.Millisecond) // until the sockets are full
	}
	port.Polling(1)
	time.Sleep(20 * time.Millisecond) // until run sleeps
	flood()
	before := y.Arrived(1)
	port.Poll()
	const most = (maxReads+1)*(size+batchPackets*packetSize+64<<10)/size + 1 // step: a payload and a buffer for each read
	if got := y.Arrived(1) - before; got == 0 || got > most {
		t.Errorf("one poll takes %d puts, the bound is %d", got, most)
	}
	eventually(t, "polls take the rest", func() bool { port.Poll(); return y.Arrived(1) == puts })
	flood()
	port.Poll()
	port.Polling(-1)
	eventually(t, "the rest comes without a poll", func() bool { return y.Arrived(1) == 2*puts })
}

// Large puts arrive while the goroutine that has said that it polls does not: their lanes have dedicated goroutines.
func TestLargePutsNeedNoPoll(t *testing.T) {
	const size = 4 << 20
	n := testNet(NetOptions{Sockets: 2})(t)
	x, y := nettest.Join(t, nettest.Open(t, n), nettest.Open(t, n), size)
	port := y.Port.(*Port)
	port.Polling(1)
	defer port.Polling(-1)
	time.Sleep(20 * time.Millisecond) // until run sleeps
	if err := x.Put(x.Src, 0, x.Dst, 0, size, 1, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a large put arrives", func() bool { return y.Arrived(1) == 1 })
}
