package testutil

import (
	"fmt"
	"net"
	"testing"
	"time"
)

func TestPort(t *testing.T) {
	port := Port(t)
	for range 2 { // again after the first has gone
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Close(), l.Close()
	}
	if c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
		t.Error("somebody listens", c.Close())
	}
}

func TestPrompt(t *testing.T) {
	calls := 0
	Prompt(t, time.Second, func() time.Duration {
		if calls++; calls < 3 {
			return time.Minute
		}
		return 0
	})
	if calls != 3 {
		t.Errorf("%d calls", calls)
	}
}
