package executor

import (
	"context"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/collective/fault"
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
		if p := e.localPeer(err); p >= 0 && len(e.local) < e.size {
			err = &collective.Error{Comm: e.name, Op: "plan", Rank: e.rank, Peer: p, Err: err}
		}
		return nil, err
	}
	all := &arena{Arena: a, Ptr: e.byRank(a.Ptr), SameProcess: make([]bool, e.size)}
	for i, r := range e.local {
		all.SameProcess[r] = a.SameProcess[i]
	}
	return all, nil
}

// localPeer is the rank that an error of package share blames, or -1.
func (e *Executor) localPeer(err error) int {
	if p := fault.PeerOf(err); p >= 0 && p < len(e.local) {
		return e.local[p]
	}
	return -1
}

// byRank indexes the addresses of this host's ranks by the ranks of the communicator. Others have 0.
func (e *Executor) byRank(local []device.Ptr) []device.Ptr {
	all := make([]device.Ptr, e.size)
	for i, r := range e.local {
		all[r] = local[i]
	}
	return all
}
