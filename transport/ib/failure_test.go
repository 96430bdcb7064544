package ib

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/transport"
)

// The tests of this file and of rdma_test.go need an RDMA adapter.

// broken waits until p has failed and returns why.
func broken(t *testing.T, p *Peer, d time.Duration) error {
	t.Helper()
	select {
	case <-p.Failed():
		return p.Err()
	case <-within(t, d).Done():
		t.Fatalf("not broken after %v", d)
		return nil
	}
}

// TestWrongKey expects errors that name the key on the side that put, and the memory on the other.
func TestWrongKey(t *testing.T) {
	a, b := openPort(t, options()), openPort(t, options())
	x, y := pair(t, a, b)
	src, dst := register(t, a, 4096), register(t, b, 4096)
	to, err := x.Import(dst.Key())
	if err != nil {
		t.Fatal(err)
	}
	to.(*remoteRegion).rkey ^= 0x5500
	result := make(chan error, 1)
	if err := x.Put(src.Region, 0, to, 0, 100, 0, func(err error) { result <- err }); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"the put": <-result, "the Peer": broken(t, x, 10*time.Second),
		"a wait": x.Wait(within(t, 10*time.Second), 1, 1)} {
		if !errors.Is(err, ErrKey) || !errors.Is(err, transport.ErrBounds) ||
			!strings.Contains(err.Error(), "remote access") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := x.Put(src.Region, 0, to, 0, 100, 0, nil); !errors.Is(err, ErrKey) {
		t.Errorf("a later put: %v", err)
	}
	if err := broken(t, y, 10*time.Second); !errors.Is(err, transport.ErrBounds) &&
		!errors.Is(err, transport.ErrPeerGone) {
		t.Errorf("the other half: %v", err)
	}
	t.Log(x.Err())
	t.Log(y.Err())
}

// TestDeadQueuePair fails one half's queue pair behind its back: the other notices, though it only waits.
func TestDeadQueuePair(t *testing.T) {
	opt := options()
	opt.Timeout, opt.Retries = 14, 2 // 67 ms, thrice
	a, b := openPort(t, opt), openPort(t, opt)
	x, y := pair(t, a, b)
	if err := y.qp.Fail(); err != nil {
		t.Fatal(err)
	}
	err := x.Wait(within(t, 20*time.Second), 0, 1)
	if !errors.Is(err, transport.ErrPeerGone) {
		t.Error(err)
	}
	t.Log(err)
	if err := broken(t, y, 10*time.Second); !errors.Is(err, ErrQueuePair) {
		t.Error(err)
	}
	t.Log(y.Err())
}

// TestQueueFull expects Put to fail, without blocking and without harm to the Peer, when QueueLimit puts wait.
func TestQueueFull(t *testing.T) {
	opt := options()
	opt.SendDepth, opt.QueueLimit = 4, 10
	a, b := openPort(t, opt), openPort(t, opt)
	x, y := pair(t, a, b)
	src, dst := register(t, a, 1<<20), register(t, b, 1<<20)
	to, err := x.Import(dst.Key())
	if err != nil {
		t.Fatal(err)
	}
	// While the first done blocks, the goroutine takes no completions, and so nothing more is posted.
	blocked, release := make(chan struct{}), make(chan struct{})
	if err := x.Put(src.Region, 0, to, 0, 1<<20, 0, func(error) { close(blocked); <-release }); err != nil {
		t.Fatal(err)
	}
	<-blocked
	accepted := uint64(1)
	for ; accepted <= 20; accepted++ {
		if err = x.Put(src.Region, 0, to, 0, 1<<20, 0, nil); err != nil {
			break
		}
	}
	close(release)
	if !errors.Is(err, transport.ErrQueueFull) || x.Err() != nil {
		t.Fatalf("%v; the Peer: %v", err, x.Err())
	}
	t.Log(err)
	if accepted != 1+4+10 {
		t.Errorf("%d puts were accepted, of which 4 may be posted and 10 wait", accepted)
	}
	if err := x.Flush(within(t, 60*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := x.Put(src.Region, 0, to, 0, 8, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := y.Wait(within(t, 20*time.Second), 0, accepted+1); err != nil {
		t.Fatal(err)
	}
}

// TestGoodbye expects a Close to reach the other half as ErrPeerClosed, after what was put before it.
func TestGoodbye(t *testing.T) {
	a, b := openPort(t, options()), openPort(t, options())
	x, y := pair(t, a, b)
	src, dst := register(t, a, 4096), register(t, b, 4096)
	to, err := x.Import(dst.Key())
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Put(src.Region, 0, to, 0, 4096, 9, nil); err != nil {
		t.Fatal(err)
	}
	if err := x.Close(); err != nil {
		t.Fatal(err)
	}
	if err := broken(t, y, 10*time.Second); !errors.Is(err, transport.ErrPeerClosed) {
		t.Error(err)
	}
	if y.Arrived(9) != 1 {
		t.Errorf("%d arrivals before the goodbye", y.Arrived(9))
	}
	if err := x.Put(src.Region, 0, to, 0, 1, 0, nil); !errors.Is(err, transport.ErrClosed) {
		t.Error(err)
	}
}
