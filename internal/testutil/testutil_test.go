package testutil

import (
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

// TestLeft leaves a process, a socket that no process holds, and a file.
func TestLeft(t *testing.T) {
	defer func(s, f string) { socketMark, fileMark = s, f }(socketMark, fileMark)
	socketMark, fileMark = fmt.Sprintf("@test-left-%d-", os.Getpid()), fmt.Sprintf("test-left-%d-", os.Getpid())
	sleeper := exec.Command("sleep", "60")
	sleeper.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	group := sleeper.Process.Pid
	if err := left([]int{group}); err == nil {
		t.Error("the process is not found")
	}
	_ = sleeper.Process.Kill()
	_ = sleeper.Wait()
	NothingLeft(t, group)

	// Only the kernel holds a listener that is in transit between two sockets.
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", socketMark+"x")
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
	_, _ = f.Close(), l.Close()
	if err := Leftovers(); err == nil || !strings.Contains(err.Error(), socketMark) {
		t.Error("the socket is not found", err)
	}
	NothingLeftOf(t, map[string]string{}) // it belongs to another job
	mine, err := sockets()
	if err != nil || len(mine) != 1 {
		t.Error(mine, err)
	}
	if err := leftovers(mine, nil); err == nil {
		t.Error("the socket is not found among those that are ours")
	}
	_, _ = unix.Close(pair[0]), unix.Close(pair[1])
	NothingLeft(t)
	if l, err = net.Listen("unix", socketMark+"y"); err != nil {
		t.Fatal(err)
	}
	if held, err := Sockets(os.Getpid()); err != nil || len(held) != 1 {
		t.Error(held, err)
	}
	_ = l.Close()

	name := "/dev/shm/" + fileMark + "x"
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Skip(err)
	}
	err = left(nil)
	if _ = os.Remove(name); err == nil {
		t.Error("the file is not found")
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
