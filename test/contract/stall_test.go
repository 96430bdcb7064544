package contract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goccl/goccl"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/test/commtest"
)

// lines is a log that a test reads while it is written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) count(parts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for line := range strings.Lines(l.buf.String()) {
		for _, p := range parts {
			if !strings.Contains(line, p) {
				continue next
			}
		}
		n++
	}
	return n
}

// A collective on one rank and a receive on the other wait for each other. By default no timeout ends that; each rank
// logs once which peer it waits for, and in which operation.
func TestALongWaitIsLogged(t *testing.T) {
	t.Setenv("GOCCL_STALL_WARNING", "200ms")
	log := &lines{}
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(log, nil)))
	comms := commtest.New(t, 2, commtest.Host, func(r int, cfg *goccl.Config) { cfg.OpTimeout, cfg.Name = -1, "pair" })
	ends := make(chan error, 2)
	for r, c := range comms {
		mem, err := c.Device().Alloc(4096)
		if err != nil {
			t.Fatal(err)
		}
		var s device.Stream
		if s, err = c.Device().NewStream(); err != nil {
			t.Fatal(err)
		}
		if r == 0 {
			err = c.AllReduce(mem.Ptr(), mem.Ptr(), 100, datatype.Int32, datatype.Sum, s)
		} else {
			err = c.Recv(mem.Ptr(), 100, datatype.Int32, 0, s)
		}
		if err != nil {
			t.Fatal(err)
		}
		go func() { ends <- errors.Join(c.Synchronize(context.Background(), s), s.Close(), mem.Close()) }()
	}
	want := func(r int, op string) int {
		return log.count("level=WARN", "op="+op, "seq=1", fmt.Sprint("rank=", r), fmt.Sprint("waits_for=", 1-r),
			"communicator=pair")
	}
	for end := time.Now().Add(30 * time.Second); want(0, "all_reduce") == 0 ||
		want(1, "recv") == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the log: %s", log.buf.String())
		}
	}
	select {
	case err := <-ends:
		t.Errorf("a wait has ended: %v", err)
	case <-time.After(time.Second):
	}
	if n := want(0, "all_reduce") + want(1, "recv"); n != 2 {
		t.Errorf("%d lines, want one of each rank", n)
	}
	for _, c := range comms {
		c.Abort(nil)
	}
	for range comms {
		if err := <-ends; !errors.Is(err, goccl.ErrAborted) {
			t.Error(err)
		}
	}
}
