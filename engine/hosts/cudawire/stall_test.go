package cudawire

import (
	"testing"
	"time"

	"github.com/goccl/goccl/engine/hosts/wire"
)

// A phase that does not end is reported once; idle times and new phases begin anew.
func TestStall(t *testing.T) {
	s := stall{after: 4 * time.Second}
	busy := true
	first, second := &wire.Op{Seq: 1}, &wire.Op{Seq: 2}
	now := time.Now()
	for i, c := range []struct {
		op   *wire.Op
		busy bool
		want time.Duration
	}{{nil, true, 0}, {first, true, 0}, {first, true, 0}, {first, false, 0}, {first, true, 0}, {first, true, 4},
		{first, true, 0}, {second, true, 0}, {second, true, 0}, {second, true, 4}} {
		now = now.Add(2 * time.Second)
		busy = c.busy
		if got := s.look(now, c.op, func() bool { return busy }); got != c.want*time.Second {
			t.Errorf("look %d: %v, want %v s", i, got, int(c.want))
		}
	}
}
