package nettest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goccl/goccl/transport"
)

// run puts once and then waits to be killed.
func (r *role) run(t *testing.T, c Config) {
	s := r.join(t, c.Net(t), 4096)
	fill(s.Out, 1)
	s.put(t, 0, 4096, 1)
	time.Sleep(limit)
}

// killedPeer kills the other process: waiters and puts end with ErrPeerGone.
func killedPeer(t *testing.T, c Config) {
	s := Half(t, Open(t, c.Net(t)), 4096)
	name := strings.SplitN(t.Name(), "/", 2)[0]
	cmd := s.spawn(t, "", "-test.run=^"+name+"$")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	s.wait(t, 1, 1)
	fill(s.Out, 1)
	if at := differ(s.In, s.Out); at >= 0 {
		t.Fatalf("byte %d from the other process is wrong", at)
	}
	s.put(t, 0, 4096, 1)
	s.flush(t)
	errs := make(chan error, 1)
	go func() { errs <- s.Wait(ctx, 1, 2) }()
	start := time.Now()
	_ = cmd.Process.Kill()
	if err := <-errs; !errors.Is(err, transport.ErrPeerGone) {
		t.Fatalf("the waiter gets %v, want ErrPeerGone", err)
	}
	t.Logf("the death was noticed after %v", time.Since(start).Round(time.Millisecond))
	if err := s.Put(s.Src, 0, s.Dst, 0, 8, 0, nil); err == nil {
		t.Error("a broken Peer takes a put")
	}
	if err := s.Flush(ctx); err == nil {
		t.Error("a broken Peer flushes")
	}
}
