package tcp

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/test/nettest"
	"github.com/goccl/goccl/test/testutil"
)

// Connections that are reset at random places, at either end: every put arrives once, with the right bytes.
func TestResetsAreRepaired(t *testing.T) {
	for name, opt := range map[string]NetOptions{"plain": {Sockets: 2}, "encrypted": {Sockets: 2, Encrypt: true}} {
		t.Run(name, func(t *testing.T) {
			n := testNet(opt)(t)
			const size = 2 << 20
			x, y := nettest.Join(t, nettest.Open(t, n), nettest.Open(t, n), size)
			stop := make(chan struct{})
			resets, arrived := 0, uint64(0)
			var cutter sync.WaitGroup
			cutter.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(1+rand.IntN(8)) * time.Millisecond):
					}
					// On a busy machine connections take longer to come back than to be cut: something must have arrived.
					now := x.Arrived(nettest.ExchangeImmediate) + y.Arrived(nettest.ExchangeImmediate)
					if now < arrived+2 {
						continue
					}
					arrived = now
					p := []*nettest.Side{x, y}[rand.IntN(2)].Peer.(*Peer)
					l := p.lanes()[rand.IntN(3)]
					if w := l.current(); w != nil {
						_ = w.raw.Control(func(fd uintptr) {
							_ = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
							_ = unix.Shutdown(int(fd), unix.SHUT_RDWR)
						})
						resets++
					}
				}
			})
			var both sync.WaitGroup
			for _, s := range []*nettest.Side{x, y} {
				both.Go(func() { nettest.Exchange(t, s, size, 60) })
			}
			both.Wait()
			close(stop)
			cutter.Wait()
			for _, s := range []*nettest.Side{x, y} {
				if got := s.Arrived(nettest.ExchangeImmediate); got != 60*4 {
					t.Errorf("%d puts arrived, want %d", got, 60*4)
				}
			}
			t.Logf("%d resets", resets)
			if resets == 0 {
				t.Error("nothing was reset")
			}
		})
	}
}

const streamVariable = "GOCCL_TCP_STREAM"

// TestStreamProcess is a process of the tests below.
func TestStreamProcess(t *testing.T) {
	if setting.Get(streamVariable) == "" {
		t.Skip("only run by other tests")
	}
	nettest.Stream(t, NewNet(NetOptions{Interface: testutil.Cable, Sockets: 2, Log: quiet()}), os.Stdin, os.Stdout)
}

// streamer is a process in a network namespace.
type streamer struct {
	cmd    *exec.Cmd
	in     io.Writer
	hello  string
	mu     sync.Mutex
	rounds uint64
	failed chan string
}

func newStreamer(t *testing.T, ns string) *streamer {
	s := &streamer{failed: make(chan string, 2)}
	s.cmd = exec.Command("ip", "netns", "exec", ns, os.Args[0], "-test.run=^TestStreamProcess$", "-test.timeout=2m")
	s.cmd.Env = append(setting.Environ(), streamVariable+"=1")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGKILL)
		_ = s.cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for s.hello == "" && lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "HELLO "); ok {
			s.hello = text
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines.Scan() {
			text := lines.Text()
			var n uint64
			if _, err := fmt.Sscanf(text, "ROUNDS %d", &n); err == nil {
				s.mu.Lock()
				s.rounds = n
				s.mu.Unlock()
			} else if strings.HasPrefix(text, "FAILED") {
				s.failed <- text
			}
		}
		if err := lines.Err(); err != nil {
			s.failed <- err.Error()
		}
	}()
	return s
}

func (s *streamer) count() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rounds
}

// goesOn waits for more rounds.
func (s *streamer) goesOn(t *testing.T, what string) {
	t.Helper()
	from := s.count()
	eventually(t, what+": more rounds", func() bool {
		select {
		case why := <-s.failed:
			t.Fatalf("%s: %s", what, why)
		default:
		}
		return s.count() > from+5
	})
}

// gone waits for ErrPeerGone.
func (s *streamer) gone(t *testing.T, what string) {
	t.Helper()
	start := time.Now()
	select {
	case why := <-s.failed:
		t.Logf("%s: after %v: %s", what, time.Since(start).Round(10*time.Millisecond), why)
		if !strings.HasPrefix(why, "FAILED gone") {
			t.Errorf("%s: %s", what, why)
		}
	case <-time.After(time.Minute):
		t.Fatalf("%s: not noticed", what)
	}
}

// streamers starts two processes on two hosts, which exchange blocks.
func streamers(t *testing.T, nsA, nsB string) (a, b *streamer) {
	t.Helper()
	a, b = newStreamer(t, nsA), newStreamer(t, nsB)
	if _, err := fmt.Fprintln(a.in, b.hello); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(b.in, a.hello); err != nil {
		t.Fatal(err)
	}
	a.goesOn(t, "at first")
	b.goesOn(t, "at first")
	return a, b
}

func ip(t *testing.T, ns string, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", append([]string{"-n", ns}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}

// A partition is noticed on both sides, without a word from the other.
func TestPartition(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	nsA, nsB, line := testutil.HostsOnLine(t)
	a, b := streamers(t, nsA, nsB)
	line.Bad(1, 0)
	a.gone(t, "one side")
	b.gone(t, "the other side")
}

// A NIC that comes back in time is no failure; a process that is stopped for long is none either; a dead one is.
func TestWhatIsNoFailure(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	nsA, nsB := testutil.Hosts(t)
	a, b := streamers(t, nsA, nsB)
	ip(t, nsA, "link", "set", testutil.Cable, "down")
	time.Sleep(time.Second)
	ip(t, nsA, "link", "set", testutil.Cable, "up")
	a.goesOn(t, "after the NIC was down")
	b.goesOn(t, "after the NIC was down")
	_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGSTOP)
	time.Sleep(4 * time.Second)
	_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGCONT)
	a.goesOn(t, "after the process was stopped")
	b.goesOn(t, "after the process was stopped")
	_ = syscall.Kill(-b.cmd.Process.Pid, syscall.SIGKILL)
	a.gone(t, "the other is killed")
}

// A bad network is slow, not wrong.
func TestLossAndDelay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	nsA, nsB, line := testutil.HostsOnLine(t)
	a, b := streamers(t, nsA, nsB)
	line.Bad(0, 200*time.Millisecond)
	a.goesOn(t, "200 ms of delay")
	b.goesOn(t, "200 ms of delay")
	line.Bad(0.3, time.Millisecond)
	before := a.count()
	for start := time.Now(); time.Since(start) < 3*time.Second; time.Sleep(50 * time.Millisecond) {
		select {
		case why := <-a.failed: // an error in time is allowed, wrong bytes are not
			if !strings.HasPrefix(why, "FAILED gone") {
				t.Fatal(why)
			}
			b.gone(t, "30 % loss, which the other side gave up")
			return
		default:
		}
	}
	t.Logf("%d blocks in 3 s with 30 %% loss", a.count()-before)
	line.Bad(0, 0)
	a.goesOn(t, "after 30 % loss")
	b.goesOn(t, "after 30 % loss")
}

// A flush asks for an acknowledgement. If the question is lost with its connection, it is asked again on the next one.
func TestAFlushSurvivesAReset(t *testing.T) {
	n := testNet(NetOptions{Sockets: 1})(t)
	x, _ := nettest.Join(t, nettest.Open(t, n), nettest.Open(t, n), 4096)
	l := x.Peer.(*Peer).all[0]
	for range 20 {
		eventually(t, "the connection is back", func() bool { return l.current() != nil })
		if err := x.Put(x.Src, 0, x.Dst, 0, 8, 1, nil); err != nil {
			t.Fatal(err)
		}
		w := l.current()
		cut := make(chan struct{})
		go func() {
			if w != nil {
				_ = w.raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
			}
			close(cut)
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		if err := x.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		<-cut
	}
}
