package executor

import (
	"context"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/share"
)

// arena is an arena of the ranks of this host, indexed by the ranks of the communicator.
type arena struct {
	*share.Arena
	Ptr         []device.Ptr // 0 for ranks of other hosts
	SameProcess []bool
}

// newArena is collective among the ranks of this host.
func (e *Executor) newArena(ctx context.Context, dev device.Device, size int64) (*arena, error) {
	a, err := share.NewArena(ctx, e.here, dev, size)
	if err != nil {
		if p := share.PeerOf(err); p >= 0 && p < len(e.near) && len(e.near) < e.size {
			err = &collective.Error{Comm: e.name, Op: "plan", Rank: e.rank, Peer: e.near[p], Err: err}
		}
		return nil, err
	}
	all := &arena{Arena: a, Ptr: make([]device.Ptr, e.size), SameProcess: make([]bool, e.size)}
	for i, r := range e.near {
		all.Ptr[r], all.SameProcess[r] = a.Ptr[i], a.SameProcess[i]
	}
	return all, nil
}
