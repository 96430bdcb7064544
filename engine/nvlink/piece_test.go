package nvlink

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/datatype"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
)

// reserved is the most memory that a communicator has before an operation needs a piece: issue 36 allows 8 MiB.
const reserved = 8 << 20

func allocated(t *testing.T, e *Engine) int64 {
	t.Helper()
	free, total, err := e.dev.MemoryInfo()
	must(t, err)
	return total - free
}

// Communicators have little memory until they need more: 1, 8 and 64 of them, measured by the driver.
func TestMemoryOfSeveral(t *testing.T) {
	const n = 4
	var all [][]*Engine
	for _, count := range []int{1, 8, 64} {
		for len(all) < count {
			all = append(all, limitedEngines(t, n, time.Minute))
		}
		for _, e := range all[count-1] {
			s, mem := newStream(t, e), memory(t, e, 64<<10)
			must(t, e.Enqueue(1, []collective.Request{allReduce(mem, 1024, s)}))
		}
	}
	first := all[0][0]
	most := int64(0)
	for _, engines := range all {
		suspendable, persistent := engines[0].Memory()
		most = max(most, suspendable+persistent)
	}
	t.Logf("a communicator of %d ranks has %d bytes", n, most)
	if most > reserved {
		t.Errorf("a communicator has %d bytes after a small operation", most)
	}
	// One more communicator, as the driver sees it.
	before := allocated(t, first)
	limitedEngines(t, n, time.Minute)
	more := allocated(t, first) - before
	t.Logf("the driver counts %d bytes", more)
	if more <= 0 || more > reserved {
		t.Errorf("one more communicator takes %d bytes of the device", more)
	}
}

// A rank makes a piece at its first use although no other rank is in a call, also in a capture; the others then have it
// too.
func TestPiecesNeedNoCalls(t *testing.T) {
	const n = 3
	for _, captured := range []bool{false, true} {
		t.Run(fmt.Sprint("captured ", captured), func(t *testing.T) {
			engines := limitedEngines(t, n, time.Minute)
			e := engines[1]
			s, mem := newStream(t, e), memory(t, e, 64<<20)
			before, _ := e.Memory()
			big := allReduce(mem, 4<<20, s)
			big.Algorithm = "two_shot_ll128/512"
			requests := []collective.Request{big, {Collective: collective.Send, Send: mem, Count: 100, Peer: 2,
				Type: datatype.Int8, Stream: s}}
			if captured {
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				must(t, s.BeginCapture(cuda.CaptureGlobal))
			}
			calls := launches(noted(t, func() { must(t, e.Enqueue(1, requests)) }))
			if captured {
				g, err := s.EndCapture()
				must(t, err)
				must(t, g.Close())
			}
			if len(calls) != 2 || calls[0].Captured != captured {
				t.Fatalf("%v", names(calls))
			}
			a := argsOf[collectiveArgs](t, calls[0])
			if a.window == e.areas[ll128] || a.window != e.wide[ll128] || calls[0].Grid <= coreBlocks {
				t.Errorf("a launch of %d blocks in %#x", calls[0].Grid, a.window)
			}
			after, _ := e.Memory()
			if after-before != e.layout().bytes(piece(ll128))+p2pBytes(n) {
				t.Errorf("%d bytes more", after-before)
			}
			for _, o := range engines {
				eventually(t, "the other ranks have the pieces too", func() bool {
					has, _ := o.Memory()
					return has == after
				})
			}
		})
	}
}

// After a rank has left, the others can still send messages to each other for the first time; an operation with the
// rank fails.
func TestPieceAfterLeave(t *testing.T) {
	engines := limitedEngines(t, 3, time.Minute)
	engines[0].Leave()
	bootstrap.Leave(engines[0].boot)
	e := engines[1]
	s, mem := newStream(t, e), memory(t, e, 64<<20)
	send := collective.Request{Collective: collective.Send, Send: mem, Count: 100, Peer: 2, Type: datatype.Int8, Stream: s}
	must(t, e.Enqueue(1, []collective.Request{send}))
	send.Peer = 0
	for _, r := range []collective.Request{send, allReduce(mem, 16<<20, s)} {
		var x *collective.Error
		if err := e.Enqueue(2, []collective.Request{r}); !errors.Is(err, collective.ErrPeerDead) || !errors.As(err, &x) ||
			x.Peer != 0 {
			t.Errorf("%v: %v", r.Collective, err)
		}
	}
}

// The wait for the processes of peers ends with the cause of an abort.
func TestPieceAbortNamesTheCause(t *testing.T) {
	engines := limitedEngines(t, 3, time.Minute)
	e := engines[1]
	e.pieces.Halt()
	must(t, e.pieces.Close())
	boots, sizes := bootstrap.NewLocalGroup(3), make([]int64, numPieces)
	for k := range numPieces {
		sizes[k] = e.layout().bytes(k)
	}
	e.pieces = share.NewPieces(boots[1], tags.Pieces, e.dev, sizes, time.Minute) // which no peer makes
	t.Cleanup(func() {
		for _, b := range boots {
			must(t, b.Close())
		}
	})
	time.AfterFunc(10*time.Millisecond, func() {
		e.Abort(&collective.Error{Op: "communicator", Rank: 0, Peer: 2, Err: collective.ErrPeerDead})
	})
	err := e.Enqueue(5, []collective.Request{allReduce(memory(t, e, 64<<20), 16<<20, newStream(t, e))})
	var x *collective.Error
	if !errors.Is(err, collective.ErrPeerDead) || !errors.As(err, &x) || x.Peer != 2 || x.Rank != 1 || x.Seq != 5 {
		t.Error(err)
	}
}

// Pieces are freed by Suspend, and Resume makes them at the same addresses.
func TestPiecesSuspend(t *testing.T) {
	const n = 3
	engines := mockEngines(t, n)
	e := engines[0]
	full, wide, areas := allocated(t, e), e.wide, e.areas
	each := func(f func(*Engine, context.Context) error) {
		t.Helper()
		must(t, eachRank(n, func(r int) error { return f(engines[r], context.Background()) }))
	}
	for range 3 {
		each((*Engine).Suspend)
		suspendable, _ := e.Memory()
		if less := full - allocated(t, e); less < suspendable || suspendable < 40<<20 {
			t.Errorf("%d bytes less after Suspend of %d", less, suspendable)
		}
		each((*Engine).Resume)
		if now := allocated(t, e); now != full {
			t.Errorf("%d bytes after Resume, %d before", now, full)
		}
		if e.wide != wide || e.areas != areas || e.ring.window != e.stream.window ||
			e.ring.window == [maxRanks]uint64{} {
			t.Error("pieces are at other addresses")
		}
	}
}
