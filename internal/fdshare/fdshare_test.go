package fdshare

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/test/mutate"
	"github.com/goccl/goccl/test/testutil"
)

// TestMain lets the test binary be its own child: GOCCL_FETCH contains a ticket to fetch and print; GOCCL_OFFER makes
// it a server.
func TestMain(m *testing.M) {
	if s := os.Getenv("GOCCL_OFFER"); s != "" {
		fmt.Println("error:", serveOffer(s))
		os.Exit(3)
	}
	if s := os.Getenv("GOCCL_FETCH"); s != "" {
		if err := fetchAndPrint(s); err != nil {
			fmt.Println("error:", err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func fetchAndPrint(s string) error {
	raw, err := hex.DecodeString(s)
	if err != nil {
		return err
	}
	t, err := ParseTicket(raw)
	if err != nil {
		return err
	}
	if os.Getenv("GOCCL_NO_FDS") != "" {
		// Leave room for the socket and the poller, but not for the received descriptor.
		c, err := dial(context.Background(), t.name().address())
		if err != nil {
			return err
		}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}); err != nil {
			return err
		}
		_, err = request(c, t)
		return err
	}
	fd, err := Fetch(context.Background(), t)
	if err != nil {
		return err
	}
	b := make([]byte, 64)
	n, err := unix.Pread(fd, b, 0)
	fmt.Println("read:", string(b[:max(n, 0)]))
	return err
}

func child(t *testing.T, ticket Ticket, change func(*exec.Cmd)) string {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "GOCCL_FETCH="+hex.EncodeToString(ticket[:]))
	if change != nil {
		change(cmd)
	}
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out)
}

func memfd(t testing.TB, content string) int {
	t.Helper()
	fd, err := unix.MemfdCreate("goccl-test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if _, err := unix.Write(fd, []byte(content)); err != nil {
		t.Fatal(err)
	}
	return fd
}

func server(t testing.TB) *Server {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// remote hides the server from this process's direct path, so that Fetch uses the socket.
func remote(t testing.TB, s *Server) {
	t.Helper()
	servers.Delete(s.name)
}

func sameFile(t testing.TB, a, b int) {
	t.Helper()
	var sa, sb unix.Stat_t
	if err := errors.Join(unix.Fstat(a, &sa), unix.Fstat(b, &sb)); err != nil {
		t.Fatal(err)
	}
	if a == b || sa.Ino != sb.Ino || sa.Dev != sb.Dev {
		t.Fatalf("descriptors %d and %d: inodes %d and %d", a, b, sa.Ino, sb.Ino)
	}
	if flags, err := unix.FcntlInt(uintptr(b), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Fatalf("descriptor %d is not close-on-exec (%v)", b, err)
	}
}

func TestFetch(t *testing.T) {
	for _, way := range []string{"same process", "socket"} {
		t.Run(way, func(t *testing.T) {
			s := server(t)
			if way == "socket" {
				remote(t, s)
			}
			fd := memfd(t, "hello")
			ticket, revoke, err := s.Offer(fd)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				got, err := Fetch(context.Background(), ticket)
				if err != nil {
					t.Fatal(err)
				}
				sameFile(t, fd, got)
				_ = unix.Close(got)
			}
			for i := range ticket {
				forged := ticket
				forged[i] ^= 1
				if got, err := Fetch(context.Background(), forged); err == nil {
					t.Fatalf("a ticket with byte %d changed gave descriptor %d", i, got)
				}
			}
			revoke()
			revoke()
			if _, err := Fetch(context.Background(), ticket); !errors.Is(err, ErrRefused) {
				t.Fatalf("after revoke: %v", err)
			}
			_ = s.Close()
			if _, err := Fetch(context.Background(), ticket); !errors.Is(err, ErrGone) {
				t.Fatalf("after Close: %v", err)
			}
			if _, _, err := s.Offer(fd); !errors.Is(err, ErrClosed) {
				t.Fatalf("offer after Close: %v", err)
			}
		})
	}
}

func TestAnotherProcess(t *testing.T) {
	s := server(t)
	ticket, revoke, err := s.Offer(memfd(t, "from the parent"))
	if err != nil {
		t.Fatal(err)
	}
	defer revoke()
	if out := child(t, ticket, nil); out != "read: from the parent\n" {
		t.Fatalf("child: %s", out)
	}
	t.Run("no room for descriptors", func(t *testing.T) {
		out := child(t, ticket, func(c *exec.Cmd) { c.Env = append(c.Env, "GOCCL_NO_FDS=1") })
		if !strings.Contains(out, "too many open files: this process may have 3") {
			t.Fatalf("child: %s", out)
		}
	})
	t.Run("another user", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("needs root to become another user")
		}
		out := child(t, ticket, func(c *exec.Cmd) {
			c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		})
		if !strings.Contains(out, "another user") {
			t.Fatalf("child: %s", out)
		}
	})
	t.Run("another network namespace", func(t *testing.T) {
		if os.Geteuid() != 0 {
			t.Skip("needs root for a namespace")
		}
		out := child(t, ticket, func(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET} })
		if strings.Contains(out, "operation not permitted") {
			t.Skip(out)
		}
		if !strings.Contains(out, "network namespace") {
			t.Fatalf("child: %s", out)
		}
	})
}

// TestHostileServer answers in every wrong way; no descriptor may be leaked.
func TestHostileServer(t *testing.T) {
	fd := memfd(t, "x")
	for name, answer := range map[string]func(c *net.UnixConn){
		"two descriptors": func(c *net.UnixConn) { _, _, _ = c.WriteMsgUnix([]byte{statusOK}, unix.UnixRights(fd, fd), nil) },
		"five descriptors": func(c *net.UnixConn) {
			_, _, _ = c.WriteMsgUnix([]byte{statusOK}, unix.UnixRights(fd, fd, fd, fd, fd), nil)
		},
		"refused but sent": func(c *net.UnixConn) {
			_, _,
				_ = c.WriteMsgUnix([]byte{statusRefused}, unix.UnixRights(fd), nil)
		},
		"two bytes": func(c *net.UnixConn) {
			_, _,
				_ = c.WriteMsgUnix([]byte{statusOK, 0}, unix.UnixRights(fd), nil)
		},
		"no descriptor":      func(c *net.UnixConn) { _, _ = c.Write([]byte{statusOK}) },
		"unknown status":     func(c *net.UnixConn) { _, _, _ = c.WriteMsgUnix([]byte{9}, unix.UnixRights(fd), nil) },
		"hang up":            func(*net.UnixConn) {},
		"silence":            func(c *net.UnixConn) { _, _ = c.Read(make([]byte, 1)) }, // until the client gives up
		"hang up on request": func(c *net.UnixConn) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			var ticket Ticket
			s := socketName{1, 2, 3}
			ticket = newTicket(1, s, [32]byte{})
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.address(), Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			_ = l.SetDeadline(time.Now().Add(20 * time.Second))
			done := make(chan struct{})
			go func() {
				defer close(done)
				c, err := l.AcceptUnix()
				if err != nil {
					return
				}
				var req Ticket
				_, _ = c.Read(req[:])
				answer(c)
				_ = c.Close()
			}()
			before := openFDs(t)
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			if got, err := Fetch(ctx, ticket); err == nil {
				t.Fatalf("got descriptor %d", got)
			}
			<-done
			if after := openFDs(t); after > before {
				t.Fatalf("descriptors: %d → %d", before, after)
			}
		})
	}
}

// TestHostileClients hold connections, send garbage and incomplete requests; a valid fetch still works.
func TestHostileClients(t *testing.T) {
	testutil.Prompt(t, 4*time.Second, func() time.Duration { return hostileClients(t) }) // they have five
}

// hostileClients returns how long Close took.
func hostileClients(t *testing.T) time.Duration {
	s := server(t)
	remote(t, s)
	ticket, _, err := s.Offer(memfd(t, "x"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range maxClients - 1 {
		c, err := dial(context.Background(), s.name.address())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if i%2 == 0 {
			_, _ = c.Write(make([]byte, i))
		}
	}
	fd, err := Fetch(context.Background(), ticket)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
	start := time.Now()
	_ = s.Close()
	return time.Since(start)
}

func TestConcurrentNothingLeaks(t *testing.T) {
	goroutines, fds := runtime.NumGoroutine(), openFDs(t)
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	remote(t, s)
	fd := memfd(t, "x")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				ticket, revoke, err := s.Offer(fd)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := Fetch(context.Background(), ticket)
				if err != nil {
					t.Error(err)
				} else {
					_ = unix.Close(got)
				}
				revoke()
			}
		})
	}
	wg.Wait()
	_ = s.Close()
	for range 3000 {
		if runtime.NumGoroutine() <= goroutines && openFDs(t) <= fds+2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	// The memfd, and the poller's own descriptors if this was the first use.
	if g, f := runtime.NumGoroutine(), openFDs(t); g > goroutines || f > fds+3 {
		t.Fatalf("goroutines %d → %d, descriptors %d → %d", goroutines, g, fds, f)
	}
}

func TestShared(t *testing.T) {
	a, err := Shared()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Shared()
	if err != nil || a != b {
		t.Fatal("two servers in one process", err)
	}
	if _, _, err := a.Offer(-1); err == nil {
		t.Fatal("offered a descriptor that is not open")
	}
}

func TestTicketHidesToken(t *testing.T) {
	ticket := newTicket(7, socketName{}, [32]byte{0xab, 0xcd})
	for _, s := range []string{fmt.Sprint(ticket), fmt.Sprintf("%v %+v %#v", ticket, ticket, ticket)} {
		if strings.Contains(s, "171") || strings.Contains(strings.ToLower(s), "ab") && strings.Contains(s, "0xab") {
			t.Fatal(s)
		}
	}
}

func FuzzTicket(f *testing.F) {
	good := newTicket(1, socketName{1}, [32]byte{2})
	f.Add(good[:])
	f.Add([]byte("GCFD"))
	mutate.Fuzz(f, func(t *testing.T, b []byte) {
		ticket, err := ParseTicket(b)
		if err == nil && string(ticket[:]) != string(b) {
			t.Fatal("a ticket does not encode to itself")
		}
	})
}

func openFDs(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
