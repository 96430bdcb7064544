package executor

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/plan"
)

// meet makes the group of this host's ranks, and the network's end if there are other hosts. It is collective; later
// calls do nothing.
func (e *Executor) meet(ctx context.Context) (err error) {
	if e.here != nil {
		return nil
	}
	e.local = bootstrap.LocalRanks(e.boot)
	if len(e.local) == e.size {
		e.here = e.boot
		return nil
	}
	group, err := bootstrap.SplitByHost(ctx, e.boot)
	if err != nil {
		return err
	}
	bootstrap.NameAs(group, e.local)
	var n *network
	var r *rings
	if e.dev.ID().Kind == device.CUDA {
		r, err = openRings(e)
	} else {
		n, err = openNetwork(e)
	}
	if err != nil {
		return errors.Join(err, group.Close())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.here, e.network, e.rings = group, n, r
	if cause := e.cause.Err(); cause != nil {
		n.halt()
		r.halt(cause)
	}
	return nil
}

// connect connects this rank with the ranks of other hosts to which a plan has links.
func (e *Executor) connect(ctx context.Context, peers []int) error {
	if e.rings != nil {
		return e.rings.connect(ctx, peers)
	}
	return e.network.connect(ctx, peers)
}

// otherHost reports whether rank r is on another host than this rank.
func (e *Executor) otherHost(r int) bool { return e.hosts != nil && e.hosts[r] != e.hosts[e.rank] }

// reaches returns an error if the plan uses memory of a rank on another host. Only port channels lead there. hosts are
// the hosts by rank.
func reaches(p *plan.Plan, hosts []int) error {
	for r := range p.GPUs {
		elsewhere := func(q int) bool { return hosts[q] != hosts[r] }
		g := &p.GPUs[r]
		if i := slices.IndexFunc(g.Peers(plan.MemoryChannel), elsewhere); i >= 0 {
			return refuse(r, g.Peers(plan.MemoryChannel)[i], fmt.Sprint("memory channel ", i))
		}
		for i, sw := range g.SwitchGroups() {
			if k := slices.IndexFunc(sw.Ranks, elsewhere); k >= 0 {
				return refuse(r, sw.Ranks[k], fmt.Sprint("switch channel ", i))
			}
		}
		for i := range g.RemoteBuffers {
			b := &g.RemoteBuffers[i]
			if elsewhere(b.Rank) && slices.Contains(b.Access, plan.MemoryChannel) {
				return refuse(r, b.Rank, fmt.Sprint("memory access to remote buffer ", i))
			}
		}
	}
	return nil
}

func refuse(rank, peer int, what string) error {
	return fmt.Errorf("%w: %s of rank %d leads to rank %d, which is on another host, where only port channels lead: use "+
		"a plan for this number of hosts (goccl plan build NAME --hosts N)", collective.ErrUnsupported, what, rank, peer)
}

// across says how this rank reaches a rank of another host, for errors; "" for one of this host.
func (e *Executor) across(r int) string {
	if r < 0 || !e.otherHost(r) {
		return ""
	}
	return fmt.Sprintf(", on another host (%s link),", e.net.Name())
}
