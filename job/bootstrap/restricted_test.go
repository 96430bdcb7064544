package bootstrap

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestNoLivenessPage joins where the kernel denies system calls that a liveness page needs: peers then detect a death
// by the sockets.
func TestNoLivenessPage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		errno unix.Errno
	}{
		{"memfd_create", unix.ENOSYS}, {"memfd_create", unix.EPERM}, {"ftruncate", unix.EPERM},
		{"get_robust_list", unix.ENOSYS},
		{"set_robust_list", unix.ENOSYS}, {"seals", unix.EINVAL}, {"seals", unix.EPERM},
	} {
		t.Run(fmt.Sprintf("%s %v", c.name, c.errno), func(t *testing.T) {
			t.Parallel()
			vars := []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + portString(t)}
			ranks := []*child{
				startRank(t, "watch", 0, 2, "", vars...),
				startRank(t, "watch", 1, 2, "", append(vars, fmt.Sprintf("%s=%s=%d", forbidVariable, c.name, int(c.errno)))...),
			}
			for _, r := range ranks {
				r.expect(t, "joined [0 0]", 30*time.Second)
			}
			ranks[1].kill()
			ranks[0].expect(t, "failed peer=1 dead=true", 30*time.Second)
		})
	}
}

// TestFewOpenFiles joins with every limit of open files, starting with the number that Go itself needs. A rank joins,
// or fails with the reason; it never panics or hangs.
func TestFewOpenFiles(t *testing.T) {
	t.Parallel()
	var named, joined atomic.Int64
	t.Run("limits", func(t *testing.T) {
		for limit := 7; limit <= 20; limit++ {
			t.Run(fmt.Sprint(limit), func(t *testing.T) {
				t.Parallel()
				vars := []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + portString(t), "GOCCL_TIMEOUT=20"}
				ranks := []*child{
					startRank(t, "barrier", 0, 2, "", vars...),
					startRank(t, "barrier", 1, 2, "", append(vars, fmt.Sprintf("%s=%d", limitVariable, limit))...),
				}
				line, ok := ranks[1].last(t)
				switch {
				case strings.HasPrefix(line, "done"):
					joined.Add(1)
				case strings.Contains(line, "too many open files") &&
					strings.Contains(line, fmt.Sprintf("may have %d open files", limit)):
					named.Add(1)
				default:
					t.Errorf("%q, %v", line, ok)
				}
				for _, r := range ranks {
					r.end()
				}
			})
		}
	})
	if named.Load() == 0 || joined.Load() == 0 {
		t.Errorf("%d limits were named, with %d the ranks joined", named.Load(), joined.Load())
	}
}

// scarce accepts every second connection; the others fail for lack of descriptors, until it is closed.
type scarce struct {
	net.Listener
	calls atomic.Int64
}

func (l *scarce) Accept() (net.Conn, error) {
	if l.calls.Add(1)%2 == 1 {
		return nil, &net.OpError{Op: "accept", Net: "unix", Err: os.NewSyscallError("accept4", unix.EMFILE)}
	}
	return l.Listener.Accept()
}

// TestShortageIsNamed accepts connections between shortages that end each time: none lasts, yet the error of a join
// whose deadline passed names the limit, and no other error does.
func TestShortageIsNamed(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &scarce{Listener: inner}
	g := &acceptor{
		listeners: []net.Listener{l}, secret: []byte("secret"), log: slog.New(slog.DiscardHandler),
		greet:   func() greeting { return greeting{} },
		starved: func(err error) { t.Errorf("a momentary shortage ended the join: %v", err) },
	}
	g.serve()
	for range 4 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Close()
	}
	for l.calls.Load() < 8 {
		time.Sleep(time.Millisecond)
	}
	late := fmt.Errorf("bootstrap: %w", ErrTimeout)
	if err := g.reason(late); !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), "raise the limit (ulimit -n") {
		t.Errorf("a passed deadline after a shortage: %v", err)
	}
	if err := g.reason(g.reason(late)); strings.Count(err.Error(), "ulimit") != 1 {
		t.Errorf("the limit is named more than once: %v", err)
	}
	if err := g.reason(ErrAuth); err != ErrAuth {
		t.Errorf("another error changed: %v", err)
	}
	g.shut()
	g.wait()
}
