package bootstrap

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestLateRanksAreTold fails a job of five before ranks 3 and 4 join. These get the error at once, and after the last
// of them the root ends.
func TestLateRanksAreTold(t *testing.T) {
	t.Parallel()
	id, err := NewUniqueID(WithInterface("lo"), quiet())
	if err != nil {
		t.Fatal(err)
	}
	r := liveRoot(id)
	addr, _ := id.decode()
	early := make(chan error, 2)
	for rank := range 2 {
		go func() {
			early <- errOf(JoinID(context.Background(), id, rank, 5, quiet(), WithTimeout(time.Minute)))
		}()
	}
	waitJoined(t, id, 2)
	insider(2, 5, func(fc *frameConn) { fc.close() })(t, id, addr.addr.String())
	for range 2 {
		if err := wantDead(<-early, 2); err != nil {
			t.Error(err)
		}
	}
	for _, late := range []int{3, 0, 3, 4} { // some join repeatedly
		err := errOf(JoinID(context.Background(), id, late, 5, quiet(), WithTimeout(time.Minute)))
		if wantDead(err, 2) != nil || !strings.Contains(err.Error(), "rank 2 was lost while joining") {
			t.Errorf("rank %d: %v", late, err)
		}
	}
	select {
	case <-r.done:
	case <-time.After(30 * time.Second):
		t.Error("the root stays though everyone knows")
	}
	if liveRoot(id) != nil {
		t.Error("the root is still listed")
	}
}

// TestLateErrorEnds closes a root that would wait for late ranks for an hour.
func TestLateErrorEnds(t *testing.T) {
	t.Parallel()
	id, err := NewUniqueID(WithInterface("lo"), quiet(), WithRootLifetime(time.Hour),
		func(c *config) { c.lateLife = time.Hour })
	if err != nil {
		t.Fatal(err)
	}
	if err := errOf(JoinID(context.Background(), id, 0, 2, quiet(), WithTimeout(50*time.Millisecond))); !errors.Is(err,
		ErrTimeout) {
		t.Error(err)
	}
	if liveRoot(id) == nil {
		t.Error("nobody is there to tell rank 1")
	}
	if err := id.Close(); err != nil || liveRoot(id) != nil {
		t.Error("the root was not closed", err)
	}
}

// TestRootIsGone: a rank joins after the process that made the id has been killed. It must fail before its own
// deadline.
func TestRootIsGone(t *testing.T) {
	t.Parallel()
	creator := startRank(t, "create", 0, 1, "")
	raw, err := hex.DecodeString(strings.TrimPrefix(creator.expect(t, "id ", 30*time.Second), "id "))
	if err != nil {
		t.Fatal(err)
	}
	id, err := ParseUniqueID(raw)
	if err != nil {
		t.Fatal(err)
	}
	creator.end()
	start := time.Now()
	err = errOf(JoinID(context.Background(), id, 1, 2, quiet(), WithTimeout(10*time.Minute)))
	if !errors.Is(err, ErrPeerDead) || !strings.Contains(err.Error(), "nobody listens there any more") ||
		!strings.Contains(err.Error(), "refused") {
		t.Error(err)
	}
	if d := time.Since(start); d < goneHere {
		t.Errorf("gave up after %v", d)
	}
}

// TestEarlyRanksWait: a rank dials an agreed address long before rank 0 listens; refusals are not an error there.
func TestEarlyRanksWait(t *testing.T) {
	t.Parallel()
	address := fmt.Sprintf("unix:@goccl-test-%x", processID())
	errs := make(chan error, 2)
	join := func(rank int) {
		b, err := JoinAddress(context.Background(), address, rank, 2, quiet(), WithTimeout(time.Minute))
		if err == nil {
			defer func() { _ = b.Close() }()
			err = b.Barrier(context.Background())
		}
		errs <- err
	}
	go join(1)
	time.Sleep(goneAfter + time.Second)
	go join(0)
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
