package bootstrap

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"testing"
	"time"
)

// pinnedLinks is how many connections of a rank stay.
func pinnedLinks(n int) int { return 2 * bits.Len(uint(n-1)) }

// A job of sparseFrom ranks has a sparse overlay: collectives, messages between any two ranks in order, and few
// connections.
func TestSparse(t *testing.T) {
	if testing.Short() {
		t.Skip("TestThousand makes more ranks")
	}
	const n = sparseFrom + 3
	bs := tcpGroup(t, n, WithTimeout(time.Minute))
	ctx := context.Background()
	for _, h := range bs[n-1].Hosts() {
		if h != 0 {
			t.Fatal("ranks of one process are not on one host")
		}
	}
	if most := mostLinks(bs); most > pinnedLinks(n) {
		t.Errorf("a rank has %d connections, want at most %d", most, pinnedLinks(n))
	}
	each(t, bs, func(b Bootstrap) error {
		got, err := b.AllGather(ctx, partOf(b.Rank(), 50))
		for r := range got {
			if string(got[r]) != string(partOf(r, 50)) {
				return fmt.Errorf("other bytes of rank %d", r)
			}
		}
		return err
	})
	if most := mostLinks(bs); most > pinnedLinks(n) {
		t.Errorf("a rank has %d connections after an all-gather, want at most %d", most, pinnedLinks(n))
	}
}

// If every rank sends to all others, connections are given up for others, and the order of messages stays.
func TestSparseCache(t *testing.T) {
	const n, cached = 20, 4
	bs := tcpGroup(t, n, WithTimeout(time.Minute), asLarge, func(c *config) { c.cached = cached })
	ctx := context.Background()
	each(t, bs, func(b Bootstrap) error {
		for round := range 2 {
			for i := 1; i < n; i++ {
				if err := b.Send(ctx, (b.Rank()+i)%n, 7, binary.LittleEndian.AppendUint32(nil, uint32(round))); err != nil {
					return err
				}
			}
		}
		for i := 1; i < n; i++ {
			for round := range 2 {
				got, err := b.Recv(ctx, (b.Rank()+i)%n, 7)
				if err != nil || binary.LittleEndian.Uint32(got) != uint32(round) {
					return fmt.Errorf("from %d in round %d: %v, %w", (b.Rank()+i)%n, round, got, err)
				}
			}
		}
		return b.Barrier(ctx)
	})
	limit := pinnedLinks(n) + 2*cached
	for end := time.Now().Add(10 * time.Second); mostLinks(bs) > limit; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("a rank has %d connections, want at most %d", mostLinks(bs), limit)
		}
	}
}

// mostLinks returns the largest number of connections of a rank.
func mostLinks(bs []Bootstrap) (most int) {
	for _, b := range bs {
		if b != nil {
			most = max(most, len(b.(*group).e.t.(*overlay).all()))
		}
	}
	return most
}

// A death in a sparse overlay is named on every rank, also on those that have no connection with the dead one, and the
// others go on without it.
func TestSparseDeath(t *testing.T) {
	const n, bad = 40, 27
	bs := tcpGroup(t, n, WithTimeout(time.Minute), asLarge)
	ctx := context.Background()
	others := survivors(bs, bad)
	killed := make(chan time.Time, 1)
	time.AfterFunc(50*time.Millisecond, func() {
		killed <- time.Now()
		abort(bs[bad])
	})
	each(t, others, func(b Bootstrap) error {
		if b.Rank()%2 == 0 {
			_, err := b.Recv(ctx, bad, 0)
			return wantDead(err, bad)
		}
		f := <-b.Failures()
		if f.Rank != bad {
			return fmt.Errorf("failure %+v", f)
		}
		return wantDead(f.Err, bad)
	})
	took := time.Since(<-killed)
	t.Logf("named on all ranks after %v", took)
	each(t, others, func(b Bootstrap) error { return wantDead(b.Barrier(ctx), bad) })
	var members []int
	for _, b := range others {
		members = append(members, b.Rank())
	}
	each(t, others, func(b Bootstrap) error {
		sub, err := b.Sub(ctx, members, 1)
		if err != nil {
			return err
		}
		defer func() { _ = sub.Close() }()
		return sub.Barrier(ctx)
	})
	for _, b := range others {
		if f := b.Failures(); len(f) != 1 {
			t.Fatalf("rank %d knows %d deaths", b.Rank(), len(f))
		}
	}
}

// A connection that breaks between two living neighbours is a loss for these two only.
func TestSparseLink(t *testing.T) {
	bs := tcpGroup(t, 40, WithTimeout(time.Minute), asLarge)
	for _, l := range bs[3].(*group).e.t.(*overlay).all() {
		if l.peer == 5 {
			l.kill(errors.New("cut"))
		}
	}
	for _, pair := range [][2]int{{3, 5}, {5, 3}} {
		if f := <-bs[pair[0]].Failures(); f.Rank != pair[1] {
			t.Errorf("rank %d has lost rank %d", pair[0], f.Rank)
		}
	}
	time.Sleep(2 * explainDelay)
	for _, b := range survivors(bs, 3, 5) {
		if f := b.Failures(); len(f) != 0 {
			t.Errorf("rank %d: %v", b.Rank(), <-f)
		}
	}
}

// largeVariable gives the jobs of this test binary sparse overlays, however small they are.
const largeVariable = "GOCCL_TEST_LARGE"

// What goes wrong while a job joins over a tree, or in its overlay, is found and named as in a small job.
func TestAsLargeJobs(t *testing.T) {
	if os.Getenv(largeVariable) != "" {
		t.Skip("this is one")
	}
	t.Parallel()
	tests := "^Test(MissingRanks|Mismatch|WorldSizeOfTheRoot|Kill9|Stalled|StopIsNoDeath|TwoHosts|PartitionWhileJoining|" +
		"DeadlineAndCancel|EverySubscriberHears|FirstDeathIsBlamed|RankZeroIsMissing|KilledBeforeItComes|AllLeave|" +
		"LateRanksAreTold|RootIsGone|PausedWhileJoining|Containers.*|ToldHosts|NothingLeaks.*)$"
	cmd := exec.Command(os.Args[0], "-test.run", tests, "-test.timeout", "5m")
	cmd.Env = append(os.Environ(), largeVariable+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
