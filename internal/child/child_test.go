package child_test

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goccl/goccl/internal/child"
)

// TestThreadsEnd starts children from goroutines that end their threads. The children outlive those.
func TestThreadsEnd(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	cmds := make([]*exec.Cmd, 8)
	errs := make([]error, len(cmds))
	for i := range cmds {
		cmds[i] = exec.Command("sleep", "60")
		wg.Go(func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			errs[i] = child.Start(cmds[i])
		})
	}
	wg.Wait()
	time.Sleep(100 * time.Millisecond)
	for i, cmd := range cmds {
		if errs[i] != nil {
			t.Error(errs[i])
			continue
		}
		var status syscall.WaitStatus
		if pid, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WNOHANG, nil); pid != 0 || err != nil {
			t.Errorf("child %d ended with its starter's thread: %v %v", i, status.Signal(), err)
			continue
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
}
