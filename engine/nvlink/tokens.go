package nvlink

import (
	"encoding/binary"
	"log/slog"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/cuda"
)

// tokens let streams of different ranks wait for each other without a kernel. A token is a word in the arena of the
// rank that takes it. The giver's stream writes 1 there; the taker's stream waits for 1 and writes 0. Operations are
// symmetric pairs of tokens: a rank gives free to each rank that is about to access its memory, and each of these gives
// full back when its copies are done. So a token is never given twice before it is taken, and since tokens are not
// numbered, replayed graphs and eager work mix, and nothing wraps around.
//
// Property, checked in every state of a small model (test/models, token): memory is accessed between free and full
// only, no token is lost, and after the death of a rank every other rank ends.
//
// The host sees through the mark, a word in host memory, whether the stream waits. It ends all waits by the upper
// half of the tokens, which no stream writes.
type tokens struct {
	ops   cuda.MemOps
	own   [tokenKinds][maxRanks]device.Ptr // by giver
	peers [tokenKinds][maxRanks]device.Ptr // by taker
	mark  device.Ptr                       // the device's address of word

	mu     sync.Mutex     // guards the fields below; since belongs to the watch
	dev    *cuda.Device   // nil: the arena is freed
	word   *atomic.Uint32 // nil once closed
	raised bool
	cut    bool // the result of Cut once closed
	since  time.Time
}

type tokenKind uint32

const (
	free tokenKind = iota
	full
	tokenKinds

	tokenBytes = int64(tokenKinds) * maxRanks * 8
)

// Values of the mark. A wait also has the kind of its tokens and the set of their givers.
const (
	markPassed = 1 << 29
	markWaits  = 1 << 30
	markSeen   = 1 << 31 // set by the host: the next mark of the stream clears it
	markKind   = 16      // the bit of the kind
)

// ranks is a set of ranks.
type ranks uint32

func (r ranks) each(do func(p int)) {
	for ; r != 0; r &= r - 1 {
		do(bits.TrailingZeros32(uint32(r)))
	}
}

// place sets the addresses of the tokens in a new arena, whose tokens are 0.
func (k *tokens) place(e *Engine) {
	for kind := range tokenKinds {
		for p := range e.size {
			at := func(giver int) int64 { return e.layout().tokenOffset() + (int64(kind)*maxRanks+int64(giver))*8 }
			k.own[kind][p], k.peers[kind][p] = e.arena.Ptr[e.rank].Add(at(p)), e.arena.Ptr[p].Add(at(e.rank))
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dev = e.dev
	if k.word == nil {
		k.word, k.mark = e.launcher.Spare()
	}
}

// leave says that the arena is about to be freed, and with closed also the mark. No stream waits. leave, raise and Cut
// accept a nil receiver.
func (k *tokens) leave(closed bool) {
	if k == nil {
		return
	}
	cut := k.Cut()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dev = nil
	if closed {
		k.cut, k.word = cut, nil
	}
}

// meet gives a token to each rank of one set and takes one from each rank of another.
func (k *tokens) meet(s *cuda.Stream, kind tokenKind, to, from ranks) error {
	to.each(func(p int) { k.ops.Write(k.peers[kind][p], 1) })
	if from != 0 {
		k.ops.Write(k.mark, markWaits|uint32(kind)<<markKind|uint32(from))
		from.each(func(p int) { k.ops.Wait(k.own[kind][p], 1) })
		from.each(func(p int) { k.ops.Write(k.own[kind][p], 0) })
		k.ops.Write(k.mark, markPassed)
	}
	return s.Run(&k.ops)
}

// raise ends all waits of this rank's streams, enqueued or replayed, until the arena is freed.
func (k *tokens) raise() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dev == nil || k.raised {
		return
	}
	k.raised = true
	if w := k.word.Load(); w&markWaits == 0 {
		k.word.CompareAndSwap(w, 0)
	}
	var all [tokenBytes]byte
	for i := range tokenBytes / 8 {
		binary.LittleEndian.PutUint64(all[i*8:], 1<<62)
	}
	if err := k.dev.CopyIn(k.own[free][0], all[:]); err != nil {
		slog.Warn("waits of streams cannot be ended", "cause", err)
	}
}

// Cut reports whether raise has ended a wait, also of a graph that was launched later.
func (k *tokens) Cut() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.word == nil {
		return k.cut
	}
	return k.raised && k.word.Load() != 0
}

// late returns a rank for whose token the stream has waited longer than the limit, or -1. The watch calls it again and
// again. A wait is the same as at the last call if the host's bit is still in its mark.
func (k *tokens) late(now time.Time, limit time.Duration) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dev == nil || limit <= 0 {
		return -1
	}
	w := k.word.Load()
	if w&markWaits == 0 || w&markSeen == 0 {
		if k.since = now; w&markWaits != 0 {
			k.word.CompareAndSwap(w, w|markSeen)
		}
		return -1
	}
	if now.Sub(k.since) < limit {
		return -1
	}
	var all [tokenBytes]byte
	if k.dev.CopyOut(all[:], k.own[free][0]) != nil {
		return -1
	}
	missing, kind := -1, int(w>>markKind&1)
	ranks(w & (1<<maxRanks - 1)).each(func(p int) {
		if at := (kind*maxRanks + p) * 8; missing < 0 && binary.LittleEndian.Uint64(all[at:]) == 0 {
			missing = p
		}
	})
	return missing
}
