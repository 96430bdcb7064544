package membership

import (
	"fmt"
	"testing"

	"github.com/goccl/goccl/internal/fault"
)

// A rank that leaves because of another one is not to blame for it. A rank that blames nobody, or the reader, is.
func TestNoticeNamesTheCulprit(t *testing.T) {
	because := fault.Error{Op: "all_reduce", Rank: 0, Peer: 1, Err: fmt.Errorf("%w: a memory fault", fault.ErrAborted)}
	for peer, want := range map[int]int{1: 1, -1: 0, 2: 0} {
		because.Peer = peer
		sender := &Notices{g: &Group{rank: 0, size: 3}}
		sender.Accuse(&because)
		d, cut, ok := parseNotice((&departure{sender.accused, 1, 0, 0}).notice(true), 3)
		n := &Notices{g: &Group{rank: 2, size: 3}, left: make([]*departure, 3), sent: make([]uint64, 3),
			received: make([]uint64, 3)}
		if err := fault.Of(n.depart(0, d, cut)); !ok || err == nil || err.Peer != want {
			t.Errorf("rank 0 blames rank %d: rank 2 reads %v, want rank %d blamed", peer, err, want)
		}
	}
}
