package leak

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

const markVariable = "TESTUTIL_LEFT_MARK" // for the child of TestOtherJobs

func TestMain(m *testing.M) {
	if name := os.Getenv(markVariable); name != "" {
		socketMark = name
		if err := NewWatch(20 * time.Millisecond).Leftovers(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// mark gives the test's sockets and files unique names.
func mark(t *testing.T) {
	s, f := socketMark, fileMark
	t.Cleanup(func() { socketMark, fileMark = s, f })
	fileMark = fmt.Sprintf("test-left-%s-%d-", t.Name(), os.Getpid())
	socketMark = "@" + fileMark
}

// listen opens a socket that counts.
func listen(t *testing.T) *os.File {
	t.Helper()
	l, err := net.Listen("unix", socketMark)
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	return f
}

// watch is a Watch that ends with the test.
func watch(t *testing.T) *Watch {
	w := NewWatch(20 * time.Millisecond)
	t.Cleanup(w.End)
	return w
}

func nothing(t *testing.T, w *Watch, groups ...int) {
	t.Helper()
	if err := w.Leftovers(groups...); err != nil {
		t.Error(err)
	}
}

// TestLeftProcess leaves a process.
func TestLeftProcess(t *testing.T) {
	mark(t)
	w := watch(t)
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
	nothing(t, w, group)
}

// TestLeftSocket leaves a socket: only the kernel holds a listener that is in transit between two others.
func TestLeftSocket(t *testing.T) {
	mark(t)
	f, w := listen(t), watch(t)
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	w.End() // it has read the table at least once
	if err := unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(int(f.Fd())), nil, 0); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	if err := w.Leftovers(); err == nil || !strings.Contains(err.Error(), socketMark) {
		t.Error("the socket is not found: ", err)
	}
	nothing(t, NewWatch(20*time.Millisecond)) // it belongs to another job: none of our processes was seen to hold it
	_, _ = unix.Close(pair[0]), unix.Close(pair[1])
	nothing(t, w)
}

// TestDue looks for the holder of a socket at once, and then ever more rarely while there is none.
func TestDue(t *testing.T) {
	w := &Watch{noted: map[string]string{"1": "own"}, others: map[string]int{}}
	if w.due(map[string]string{"1": "own"}) {
		t.Error("a noted socket is looked up")
	}
	table, looks := map[string]string{"1": "own", "2": "foreign"}, 0
	for range 64 {
		if w.due(table) {
			looks++
		}
	}
	if looks != 7 {
		t.Errorf("%d looks in 64, want 7", looks)
	}
	table["3"] = "new"
	if !w.due(table) {
		t.Error("a new socket is not looked up")
	}
	delete(table, "3")
	if w.due(table) || len(w.others) != 1 {
		t.Errorf("after a socket has gone %v are counted", w.others)
	}
	if table["3"] = "another"; !w.due(table) {
		t.Error("a new socket with the inode of an old one is not looked up")
	}
}

// TestOtherJobs looks for leftovers in a PID namespace, where the socket of a process outside has no holder.
func TestOtherJobs(t *testing.T) {
	mark(t)
	f := listen(t)
	defer func() { _ = f.Close() }()
	by := []string{"--pid", "--fork", "--kill-child", "--mount-proc"}
	if out, err := exec.Command("unshare", append(by, "true")...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %v: %s", err, out)
	}
	child := exec.Command("unshare", append(by, os.Args[0])...)
	child.Env = append(os.Environ(), markVariable+"="+socketMark)
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestLeftFile leaves a file in shared memory.
func TestLeftFile(t *testing.T) {
	mark(t)
	name := "/dev/shm/" + fileMark + "x"
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Skip(err)
	}
	err := left(nil)
	if _ = os.Remove(name); err == nil {
		t.Error("the file is not found")
	}
}
