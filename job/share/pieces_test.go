package share

import (
	"errors"
	"testing"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
)

type pieceRank struct {
	*Pieces
	dev  *failing
	boot bootstrap.Bootstrap
}

func pieceRanks(t *testing.T, n int, limit time.Duration) []*pieceRank {
	t.Helper()
	all := make([]*pieceRank, n)
	for r, b := range bootstrap.NewLocalGroup(n) {
		dev := &failing{Device: open(t)}
		all[r] = &pieceRank{NewPieces(b, 4, dev, []int64{1 << 12, 1 << 14}, limit), dev, b}
		t.Cleanup(func() {
			if err := errors.Join(all[r].Close(), b.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	return all
}

// One rank makes a piece although no other rank uses it, and writes to it; the others find the data later.
func TestPieces(t *testing.T) {
	all := pieceRanks(t, 3, 20*time.Second)
	for k := range 2 {
		at, err := all[k].At(k)
		if err != nil {
			t.Fatal(err)
		}
		for r, p := range at {
			device.Bytes(p.Add(100), 1)[0] = byte(10*k + r + 1)
		}
	}
	for r, p := range all {
		for k, size := range p.sizes {
			at, err := p.At(k)
			if err != nil {
				t.Fatal(err)
			}
			if got := device.Bytes(at[r], size)[100]; got != byte(10*k+r+1) {
				t.Errorf("rank %d, piece %d: %d", r, k, got)
			}
		}
		if got := p.Bytes(); got != 1<<12+1<<14 {
			t.Errorf("rank %d has %d bytes", r, got)
		}
	}
}

// A rank that cannot make its part is the error of every rank that uses the piece. Other pieces work.
func TestPieceFails(t *testing.T) {
	all := pieceRanks(t, 3, 20*time.Second)
	all[2].dev.exports = true
	for r, p := range all {
		if _, err := p.At(0); err == nil || fault.PeerOf(err) != 2 && r != 2 {
			t.Errorf("rank %d: %v", r, err)
		}
	}
	all[2].dev.exports = false
	if _, err := all[0].At(1); err != nil {
		t.Error(err)
	}
}

// Ranks that have left without a piece are left out, and those that have it stay in it.
func TestPieceAfterLeave(t *testing.T) {
	all := pieceRanks(t, 3, 20*time.Second)
	if _, err := all[1].At(0); err != nil {
		t.Fatal(err)
	}
	all[0].Leave()
	bootstrap.Leave(all[0].boot)
	for _, p := range all[1:] {
		for k := range 2 {
			at, err := p.At(k)
			if err != nil {
				t.Fatal(err)
			}
			if (at[0] == 0) != (k == 1) || at[1] == 0 || at[2] == 0 {
				t.Errorf("piece %d is at %#x", k, at)
			}
		}
	}
}

// The wait for a process that does not answer ends, and names its rank.
func TestPieceLate(t *testing.T) {
	const late = 1
	boots := bootstrap.NewLocalGroup(3)
	var all []*Pieces
	for r, b := range boots {
		defer func() { _ = b.Close() }()
		if r != late {
			p := NewPieces(b, 4, open(t), []int64{1 << 12}, time.Second)
			defer func() { _ = p.Close() }()
			all = append(all, p)
		}
	}
	for _, p := range all {
		if _, err := p.At(0); !errors.Is(err, fault.ErrTimeout) || fault.PeerOf(err) != late {
			t.Error(err)
		}
	}
}

// An abort ends the wait.
func TestPieceAbandoned(t *testing.T) {
	boots := bootstrap.NewLocalGroup(2)
	p := NewPieces(boots[0], 4, open(t), []int64{1 << 12}, time.Minute)
	defer func() { _ = errors.Join(p.Close(), boots[0].Close(), boots[1].Close()) }()
	time.AfterFunc(10*time.Millisecond, p.Abandon)
	if _, err := p.At(0); !errors.Is(err, fault.ErrAborted) {
		t.Error(err)
	}
}
