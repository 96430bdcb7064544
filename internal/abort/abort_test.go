package abort

import (
	"errors"
	"testing"
	"time"
)

func TestBlock(t *testing.T) {
	b := new(Block)
	b.Limit(-time.Second)
	if b.SpinLimit.Load() != 0 {
		t.Error("a negative limit is not taken for none")
	}
	b.Raise(PeerDead)
	b.Raise(Aborted)
	if b.Abort.Load() != PeerDead {
		t.Errorf("reason %d, want the first one", b.Abort.Load())
	}
	b.Peer.Store(UnknownPeer)
	if b.PeerRank() != -1 {
		t.Errorf("peer %d, want none", b.PeerRank())
	}
	b.Reported.Store(Timeout)
	if b.Clear(); b.Abort.Load() != 0 || b.Reported.Load() != 0 {
		t.Error("not cleared")
	}
}

func TestCause(t *testing.T) {
	var c Cause
	first := errors.New("first")
	if c.Err() != nil || !c.Set(first) || c.Set(errors.New("second")) || c.Err() != first {
		t.Errorf("cause %v, want the first one", c.Err())
	}
}
