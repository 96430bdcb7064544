package executor

import (
	"context"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/share"
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
		if p := e.nearPeer(err); p >= 0 && len(e.near) < e.size {
			err = &collective.Error{Comm: e.name, Op: "plan", Rank: e.rank, Peer: p, Err: err}
		}
		return nil, err
	}
	all := &arena{Arena: a, Ptr: e.byRank(a.Ptr), SameProcess: make([]bool, e.size)}
	for i, r := range e.near {
		all.SameProcess[r] = a.SameProcess[i]
	}
	return all, nil
}

// nearPeer is the rank that an error of package share blames, or -1.
func (e *Executor) nearPeer(err error) int {
	if p := share.PeerOf(err); p >= 0 && p < len(e.near) {
		return e.near[p]
	}
	return -1
}

// byRank indexes the addresses of this host's ranks by the ranks of the communicator. Others have 0.
func (e *Executor) byRank(near []device.Ptr) []device.Ptr {
	all := make([]device.Ptr, e.size)
	for i, r := range e.near {
		all[r] = near[i]
	}
	return all
}
