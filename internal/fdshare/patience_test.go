package fdshare

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// serveOffer serves a descriptor until it is killed; "full" brings the process to its limit of open files.
func serveOffer(how string) error {
	fd, err := unix.MemfdCreate("goccl-test", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	s, err := Shared()
	if err != nil {
		return err
	}
	ticket, _, err := s.Offer(fd)
	if err != nil {
		return err
	}
	if how == "full" {
		next, err := unix.Dup(fd)
		if err != nil {
			return err
		}
		_ = unix.Close(next)
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next), Max: uint64(next)}); err != nil {
			return err
		}
	}
	fmt.Println(hex.EncodeToString(ticket[:]))
	select {}
}

// remoteServer runs serveOffer in another process.
func remoteServer(t *testing.T, how string) (*exec.Cmd, Ticket) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "GOCCL_OFFER="+how)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, _ := bufio.NewReader(out).ReadString('\n')
	raw, err := hex.DecodeString(strings.TrimSpace(line))
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	ticket, err := ParseTicket(raw)
	if err != nil {
		t.Fatal(err)
	}
	return cmd, ticket
}

// TestStoppedServer fetches from a process that is stopped for longer than any limit of this package: only the caller's
// deadline applies.
func TestStoppedServer(t *testing.T) {
	t.Parallel()
	cmd, ticket := remoteServer(t, "plain")
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var stopped unix.WaitStatus
	if _, err := unix.Wait4(cmd.Process.Pid, &stopped, unix.WUNTRACED, nil); err != nil || !stopped.Stopped() {
		t.Fatal(stopped, err)
	}
	time.AfterFunc(visitTimeout+time.Second, func() { _ = cmd.Process.Signal(syscall.SIGCONT) })
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Fetch(short, ticket); !errors.Is(err, context.DeadlineExceeded) ||
		!strings.Contains(err.Error(), "is it stopped") {
		t.Errorf("before it goes on: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fd, err := Fetch(ctx, ticket)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
}

// TestServerWithoutRoom: a server at its limit of open files reports that.
func TestServerWithoutRoom(t *testing.T) {
	t.Parallel()
	_, ticket := remoteServer(t, "full")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fd, err := Fetch(ctx, ticket)
	if !errors.Is(err, unix.EMFILE) || !strings.Contains(err.Error(), "the other process") {
		t.Fatalf("descriptor %d, %v", fd, err)
	}
}

// TestClientComesAgain: the server hangs up on a client that was silent for too long, because it was stopped; the
// client retries.
func TestClientComesAgain(t *testing.T) {
	ticket := newTicket(1, socketName{4, 5, 6}, [32]byte{})
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: ticket.name().address(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_ = l.SetDeadline(time.Now().Add(time.Minute))
	content := memfd(t, "x")
	go func() {
		for visit := range 3 {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			if visit > 0 {
				_, _ = c.Read(make([]byte, TicketSize))
			}
			if visit == 2 {
				_, _, _ = c.WriteMsgUnix([]byte{statusOK}, unix.UnixRights(content), nil)
			}
			_ = c.Close()
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fd, err := Fetch(ctx, ticket)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.Close(fd)
}
