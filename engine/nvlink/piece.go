package nvlink

import (
	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/tags"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/share"
)

// makePieces prepares the pieces that are not in the arena. No memory is allocated yet.
func (e *Engine) makePieces(cfg *Config) {
	if !e.later {
		return
	}
	sizes := make([]int64, numPieces)
	for k := range numPieces {
		sizes[k] = e.layout().bytes(k)
	}
	e.pieces = share.NewPieces(e.boot, tags.Pieces, e.dev, sizes, waitLimit(cfg))
}

// everyRank is the set of the ranks of a collective.
func (e *Engine) everyRank() ranks { return 1<<e.size - 1 }

// need makes a piece, if it does not exist, for work with some ranks. It may wait for the peers' processes, and not for
// their calls, nor for the device.
func (e *Engine) need(k piece, with ranks) error {
	if e.reached[k]&with == with {
		return nil
	}
	at, err := e.pieces.At(int(k))
	if err != nil {
		return bootstrap.Kind(err)
	}
	if e.reached[k] == 0 {
		e.locate(k, at, 0)
	}
	for p := range e.size {
		if with&(1<<p) != 0 && at[p] == 0 {
			return blame(e.boot, p, "%w: rank %d has left the communicator", collective.ErrPeerDead)
		}
	}
	return nil
}

// locate enters the addresses of a piece, by rank, into the parameters of launches.
func (e *Engine) locate(k piece, base []device.Ptr, offset int64) {
	var at [maxRanks]uint64
	for p, b := range base {
		if b != 0 {
			at[p] = uint64(b.Add(offset))
			e.reached[k] |= 1 << p
		}
	}
	switch k {
	case pieceMessages:
		e.p2p.window, e.few.window, e.counted.window = at, at, at
	case pieceStreams:
		e.stream.window, e.ring.window, e.directArgs.window = at, at, at
	default:
		e.wide[k] = at
	}
}
