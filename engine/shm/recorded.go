package shm

import (
	"sync/atomic"

	"github.com/goccl/goccl/watch/record"
)

// recorded holds the numbers of the algorithms in the records, and what a message waits for.
type recorded struct {
	oneShot, twoShot, staged, direct, rings, meeting int

	waitsFor atomic.Int64 // 1 + the peer of the message that a sleeping pointToPoint waits for; 0: none
}

func newRecorded(r *record.Recorder) recorded {
	return recorded{oneShot: r.Index(nameOneShot), twoShot: r.Index(nameTwoShot), staged: r.Index(nameStaged),
		direct: r.Index(nameDirect), rings: r.Index("rings"), meeting: r.Index("meeting")}
}

// algorithm records what runs the request.
func (o *op) algorithm(index int) { o.e.record.Algorithm(o.req.PointToPoint(), o.seq, index) }

// Waits lists what this rank waits for now: the ranks that have not published its phase, or the peer of a message. Any
// goroutine may call it.
func (e *Engine) Waits() (list []record.Wait) {
	e.end.Lock()
	defer e.end.Unlock()
	if e.closed {
		return nil
	}
	if p := int(e.recorded.waitsFor.Load()) - 1; p >= 0 {
		return []record.Wait{{Peer: p, Flag: record.FlagPiece.String(), Epoch: e.arenas[e.rank].taken(p).Load() + 1,
			Have: e.arenas[p].sent(e.rank).Load()}}
	}
	mine := e.arenas[e.rank].phase().Load()
	for r, a := range e.arenas {
		if have := a.phase().Load(); have < mine {
			list = append(list, record.Wait{Peer: r, Flag: record.FlagPhase.String(), Epoch: mine, Have: have})
		}
	}
	return list
}
