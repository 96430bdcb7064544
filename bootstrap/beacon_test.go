package bootstrap

import (
	"context"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/goccl/goccl/internal/testutil"
)

// TestBeacon watches this process's own beacon: set up, reference-counted, and gone after the last release without a
// sign of death.
func TestBeacon(t *testing.T) {
	a, err := acquireBeacon()
	if err != nil {
		t.Fatal(err)
	}
	b, err := acquireBeacon()
	if err != nil || a != b {
		t.Fatal("two beacons", err)
	}
	page, err := watchBeacon(context.Background(), a.ticket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(page) }()
	releaseBeacon()
	time.Sleep(10 * time.Millisecond)
	if w := beaconWord(page).Load(); w == 0 || beaconDied(page) {
		t.Errorf("the word of a lit beacon is %#x", w)
	}
	ticket := a.ticket
	releaseBeacon()
	if w := beaconWord(page).Load(); w != 0 {
		t.Errorf("the word of a beacon that was put out is %#x", w)
	}
	if _, err := watchBeacon(context.Background(), ticket); err == nil {
		t.Error("a beacon that was put out can be mapped")
	}
}

// TestBeaconOfTheDead keeps a killed rank's sockets open in a child: only the beacon shows the death.
func TestBeaconOfTheDead(t *testing.T) {
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
