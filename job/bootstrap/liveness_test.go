package bootstrap

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/test/testutil"
)

// TestLiveness watches this process's own liveness page: set up, reference-counted, and gone after the last release
// without a sign of death.
func TestLiveness(t *testing.T) {
	if os.Getenv("GOCCL_TEST_ALONE") == "" { // ranks of other tests in this process hold references, too
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestLiveness$")
		cmd.Env = append(os.Environ(), "GOCCL_TEST_ALONE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	a, err := process.liveness.acquire()
	if err != nil {
		t.Fatal(err)
	}
	b, err := process.liveness.acquire()
	if err != nil || a != b {
		t.Fatal("two liveness pages", err)
	}
	page, err := watchLiveness(context.Background(), a.ticket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(page) }()
	process.liveness.release()
	time.Sleep(10 * time.Millisecond)
	if w := livenessWord(page).Load(); w == 0 || livenessEnded(page) {
		t.Errorf("the word of a liveness page in use is %#x", w)
	}
	ticket := a.ticket
	process.liveness.release()
	if w := livenessWord(page).Load(); w != 0 {
		t.Errorf("the word of a released liveness page is %#x", w)
	}
	if _, err := watchLiveness(context.Background(), ticket); err == nil {
		t.Error("a released liveness page can be mapped")
	}
}

// TestLivenessOfTheDead keeps a killed rank's sockets open in a child: only the liveness page shows the death.
func TestLivenessOfTheDead(t *testing.T) {
	t.Parallel()
	testutil.Prompt(t, time.Second, func() time.Duration {
		address := []string{"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + portString(t)}
		ranks := []*child{startRank(t, "watch", 0, 2, "", address...), startRank(t, "clinging", 1, 2, "", address...)}
		ranks[0].expect(t, "joined", 30*time.Second)
		ranks[1].expect(t, "clung", 30*time.Second)
		// Only the rank itself, not its group: the child that holds its sockets stays.
		_ = syscall.Kill(ranks[1].cmd.Process.Pid, syscall.SIGKILL)
		killed := time.Now()
		ranks[0].expect(t, "failed peer=1 dead=true", 30*time.Second) // the child holds them for sixty
		return time.Since(killed)
	})
}
