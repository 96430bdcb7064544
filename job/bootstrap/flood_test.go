package bootstrap

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestIdleFlood holds a thousand silent connections open, and opens more, while the ranks join.
func TestIdleFlood(t *testing.T) {
	lines := &logBuffer{}
	id, err := NewUniqueID(WithInterface("lo"), logged(lines))
	if err != nil {
		t.Fatal(err)
	}
	f, _ := id.decode()
	var held []net.Conn
	defer func() {
		for _, c := range held {
			_ = c.Close()
		}
	}()
	for range 1000 {
		c, err := net.Dial("tcp", f.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, c)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			if c, err := net.Dial("tcp", f.addr.String()); err == nil {
				defer func() { _ = c.Close() }()
			}
		}
	})
	r := liveRoot(id)
	if pending := r.acceptor.lobby.Len(); pending > maxPending {
		t.Errorf("%d connections wait at the root", pending)
	}
	bs := joinAll(t, id, 4)
	close(stop)
	wg.Wait()
	if !t.Failed() { // the flood has not used up the ranks' timeout
		each(t, bs, func(b Bootstrap) error { return b.Barrier(context.Background()) })
	}
	if n := strings.Count(lines.String(), "refused"); n == 0 || n > 64 {
		t.Errorf("%d log lines", n)
	}
}

// TestSilentVisitor: a silent connection has its own deadline, however long the ranks may wait.
func TestSilentVisitor(t *testing.T) {
	t.Parallel()
	id, err := NewUniqueID(WithInterface("lo"), quiet(), WithTimeout(10*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = id.Close() }()
	f, _ := id.decode()
	for _, said := range []string{"", protocolMagic} {
		c, err := net.Dial("tcp", f.addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		_, _ = c.Write([]byte(said))
		_ = c.SetReadDeadline(time.Now().Add(handshakeTimeout + 30*time.Second))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%q: %v", said, err)
		}
	}
}
