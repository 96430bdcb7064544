package cudawire

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/engine/hosts/wire"
	"github.com/goccl/goccl/transport"
)

// pollNet is a memNet whose ports are Pollers: while the proxy says that it polls, puts that have arrived are delivered
// at its polls only.
type pollNet struct {
	*memNet
	ports []*pollPort
}

type pollPort struct {
	*memNet
	polling, polls atomic.Int64
}

func (n *pollNet) Open(int) (transport.Port, error) {
	p := &pollPort{memNet: n.memNet}
	n.ports = append(n.ports, p)
	return p, nil
}

func (p *pollPort) Poll()             { p.polls.Add(1) }
func (p *pollPort) Polling(delta int) { p.polling.Add(int64(delta)) }

func (p *pollPort) NewPeer() (transport.Peer, error) {
	return p.newPeer(func(broken <-chan struct{}) {
		for n := p.polls.Load(); p.polling.Load() > 0 && p.polls.Load() == n; time.Sleep(20 * time.Microsecond) {
			select {
			case <-broken:
				return
			default:
			}
		}
	}), nil
}

func newPollNet(seed uint64) *pollNet { return &pollNet{memNet: newMemNet(seed)} }

// soon waits for cond.
func soon(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

// Messages in both directions arrive, for which the proxies take and send in turn: with a queue of five puts and rings
// of few slots neither goes on without the other.
func TestProxyTakesArrivals(t *testing.T) {
	net := newPollNet(21)
	all := ranks(t, 2, net, small)
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		const n = 64 << 10
		var want [2][]byte
		var sent, got [2]device.Ptr
		for r, w := range all {
			want[r] = random(rng, n)
			sent[r], got[r] = w.memory(t, n), w.memory(t, n)
			w.fill(t, sent[r], want[r])
		}
		for r, w := range all {
			must(t, w.Run(w.stream, someOp, &wire.Phase{Sends: []wire.Part{{Peer: 1 - r, Ptr: sent[r], Bytes: n}},
				Recvs: []wire.Part{{Peer: 1 - r, Ptr: got[r], Bytes: n}}}))
		}
		for r, w := range all {
			w.wait(t)
			if string(w.read(t, got[r], n)) != string(want[1-r]) {
				t.Fatalf("rank %d got other bytes", r)
			}
			w.reset()
		}
	}
	for r, p := range net.ports {
		if p.polls.Load() == 0 {
			t.Errorf("the proxy of rank %d has not polled", r)
		}
	}
}

// A proxy without work does not poll, and has told the port, whether kernels can post or not; nor after Close.
func TestIdleProxyDoesNotPoll(t *testing.T) {
	for _, captured := range []bool{true, false} {
		ended = func() (bool, error) { return true, nil }
		net := newPollNet(22)
		all := ranks(t, 2, net, nil)
		ended = nil
		if !mock && !captured {
			t.Skip("the emulation says whether kernels can post")
		}
		for _, w := range all {
			w.captured.Store(captured)
		}
		p, q := all[0].memory(t, 64), all[1].memory(t, 64)
		must(t, all[0].Run(all[0].stream, someOp, &wire.Phase{Sends: []wire.Part{{Peer: 1, Ptr: p, Bytes: 64}}}))
		must(t, all[1].Run(all[1].stream, someOp, &wire.Phase{Recvs: []wire.Part{{Peer: 0, Ptr: q, Bytes: 64}}}))
		for r, port := range net.ports {
			soon(t, "the proxy polls without work", func() bool {
				before := port.polls.Load()
				time.Sleep(20 * time.Millisecond)
				return port.polling.Load() == 0 && before > 0 && port.polls.Load() == before
			})
			must(t, all[r].Close())
			if n := port.polling.Load(); n != 0 {
				t.Errorf("%d polling after Close", n)
			}
		}
	}
	if n := spinning.Load(); n != 0 {
		t.Errorf("%d proxies spin", n)
	}
}

// Close ends a proxy that polls, and the port takes arrivals by itself again.
func TestCloseEndsPolling(t *testing.T) {
	net := newPollNet(23)
	all := ranks(t, 2, net, nil)
	for r, w := range all {
		w.launched() // as after a launch: the proxy polls
		must(t, w.Close())
		if n := net.ports[r].polling.Load(); n != 0 {
			t.Errorf("%d polling after Close", n)
		}
	}
}

// Yields are rare only where each proxy that polls has eight processors.
func TestLooks(t *testing.T) {
	a := arrivals{processors: 16}
	for n, want := range []int{manyLooks, manyLooks, manyLooks, fewLooks} {
		spinning.Add(int32(n))
		if got := a.looks(); got != want {
			t.Errorf("%d proxies on 16 processors: a yield after %d looks, not %d", n, got, want)
		}
		spinning.Add(-int32(n))
	}
}
