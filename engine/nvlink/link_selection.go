package nvlink

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/collective"
	"github.com/goccl/goccl/device/cuda"
	"github.com/goccl/goccl/internal/setting"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/job/topo"
)

// path is what a rank knows of the way from its GPU to another rank's GPU.
type path struct {
	Link     cuda.Link
	Apart    setting.P2PLevel
	Verdicts [numMedia]verdict // earlier ones of this process
}

// Pair is the link of two ranks, and the reason why it is no better.
type Pair struct {
	A, B   int
	Kind   LinkKind
	Reason string
}

// ErrNetwork means that some pair of ranks has no link but the network.
var ErrNetwork = fmt.Errorf("%w: only the network is left between GPUs of one host", collective.ErrUnsupported)

// meetPaths exchanges the ranks' paths to all others: the result is by rank and peer.
func meetPaths(ctx context.Context, b bootstrap.Bootstrap, dev *cuda.Device, all []hello) ([][]path, error) {
	row, failed := make([]path, len(all)), error(nil)
	for r := range all {
		l, err := dev.LinkTo(all[r].BusID)
		failed = errors.Join(failed, err)
		row[r] = path{l, dev.Apart(all[r].BusID), known(all[b.Rank()].BusID, all[r].BusID)}
	}
	rows, err := exchange(ctx, b, row, "links", func(row *[]path) bool { return len(*row) == len(all) })
	return rows, cmp.Or(failed, err)
}

// linkSelection chooses the link of each pair. All ranks have the same hellos and paths, so they make the same choice.
type linkSelection struct {
	boot  bootstrap.Bootstrap // names the ranks; nil: by their index
	all   []hello
	paths [][]path
}

// pairs returns the link of each pair.
func (l *linkSelection) pairs() []Pair {
	var out []Pair
	for b := range l.all {
		for a := range b {
			out = append(out, l.pair(a, b))
		}
	}
	return out
}

// pair chooses the best link kind that the GPUs have and that no rank's environment excludes.
func (l *linkSelection) pair(a, b int) Pair {
	p, way := Pair{A: a, B: b}, min(l.paths[a][b].Link, l.paths[b][a].Link)
	if want := l.all[0].Link; want != setting.LinkBest {
		kind, name := forced(want)
		p.Kind, p.Reason = kind, "GOCCL_LINK="+name
		return p
	}
	apart := max(l.paths[a][b].Apart, l.paths[b][a].Apart)
	switch {
	case way == cuda.SameGPU:
		p.Reason = "the same GPU"
	case way == cuda.NoLink:
		p.Kind, p.Reason = HostMemory, "the driver reports no peer access"
	case way == cuda.PCIe:
		p.Kind, p.Reason = PCIe, "no NVLink between the two"
	}
	for r := range l.all {
		h := &l.all[r]
		switch {
		case p.Kind >= HostMemory || way == cuda.SameGPU:
		case h.NoP2P:
			p.Kind, p.Reason = HostMemory, fmt.Sprintf("NCCL_P2P_DISABLE=1 on rank %d", l.name(r))
		case h.P2PLevel == setting.P2PNever,
			h.P2PLevel != setting.P2PAny && p.Kind == PCIe && (apart > h.P2PLevel || h.P2PLevel == setting.P2PNVLink):
			p.Kind, p.Reason = HostMemory, fmt.Sprintf("further apart than NCCL_P2P_LEVEL of rank %d allows", l.name(r))
		}
	}
	if why := l.broken(a, b, peerMemory); p.Kind < HostMemory && why != "" {
		p.Kind, p.Reason = HostMemory, why
	}
	for r := range l.all {
		if p.Kind == HostMemory && l.all[r].NoHostMemory {
			p.Kind, p.Reason = Network, p.Reason+fmt.Sprintf(", and NCCL_SHM_DISABLE=1 on rank %d", l.name(r))
		}
	}
	if why := l.broken(a, b, hostMemory); p.Kind == HostMemory && why != "" {
		p.Kind, p.Reason = Network, p.Reason+", and "+why
	}
	return p
}

// broken returns why no data passes between two ranks by a medium, although the driver promises it; "" if it does or
// was not probed.
func (l *linkSelection) broken(a, b int, m medium) string {
	return cmp.Or(l.paths[a][b].Verdicts[m].Broken, l.paths[b][a].Verdicts[m].Broken)
}

// proven reports whether all ranks know from an earlier probe that data passes between all of them.
func (l *linkSelection) proven(m medium) bool {
	for a := range l.paths {
		for b := range l.paths[a] {
			if a != b && !l.paths[a][b].Verdicts[m].Proven {
				return false
			}
		}
	}
	return true
}

// learn enters the results of a probe, by rank and source. It reports whether data passes between all ranks.
func (l *linkSelection) learn(rank int, m medium, results [][]uint32) bool {
	good := true
	for a := range l.paths {
		for b := range l.paths {
			if a == b {
				continue
			}
			why := cmp.Or(found(results[b][a], l.name(a), l.name(b)), found(results[a][b], l.name(b), l.name(a)))
			v := verdict{Proven: why == "", Broken: why}
			l.paths[a][b].Verdicts[m], good = v, good && v.Proven
			if a == rank {
				learn(l.all[a].BusID, l.all[b].BusID, m, v)
			}
		}
	}
	return good
}

// possible returns the reason why a forced link kind cannot work for some pair, or nil.
func (l *linkSelection) possible() error {
	want := l.all[0].Link
	kind, name := forced(want)
	for r := range l.all {
		if l.all[r].Link != want {
			return blame(l.boot, r, "%w: rank %d has another GOCCL_LINK than rank %d: set the same on all ranks",
				collective.ErrMismatch, l.name(0))
		}
		for p := range l.all {
			way := l.paths[r][p].Link
			var why string
			switch {
			case want == setting.LinkBest:
			case kind <= PCIe && way == cuda.NoLink:
				why = "the driver reports no peer access (goccl doctor)"
			case kind == NVLink && way == cuda.PCIe:
				why = "they are connected by PCIe only"
			}
			if why != "" {
				return fmt.Errorf("%w: GOCCL_LINK=%s cannot work between %s: %s; unset it to use the best link that works",
					collective.ErrUnsupported, name, l.names(r, p), why)
			}
		}
	}
	return nil
}

// Expect returns the links that the GPUs of a machine, one rank each, would use in an environment if all of them work
// as the driver says. It probes nothing.
func Expect(m *topo.Machine, env *setting.Config) ([]Pair, error) {
	l := &linkSelection{all: make([]hello, len(m.GPUs)), paths: make([][]path, len(m.GPUs))}
	for a, g := range m.GPUs {
		l.all[a] = hello{GPU: g.Name, BusID: g.BusID, Link: env.Link, P2PLevel: env.P2PLevel, NoP2P: env.NoP2P,
			NoHostMemory: env.NoHostMemory}
		l.paths[a] = make([]path, len(m.GPUs))
		for b := range m.GPUs {
			l.paths[a][b].Link = cuda.SameGPU
			if link, ok := m.Link(a, b); ok {
				l.paths[a][b] = expectPath(link)
			}
		}
	}
	if len(l.all) == 0 {
		return nil, nil
	}
	return l.pairs(), l.possible()
}

func expectPath(link topo.Link) path {
	p := path{Link: cuda.PCIe, Apart: setting.P2PSystem}
	switch {
	case !link.P2P:
		p.Link = cuda.NoLink
	case link.Path == topo.PathNVLink:
		p.Link = cuda.NVLink
	}
	switch link.Path {
	case topo.PathUnknown, topo.PathNVLink:
		p.Apart = setting.P2PAny
	case topo.PathPIX:
		p.Apart = setting.P2PSwitch
	case topo.PathPXB:
		p.Apart = setting.P2PSwitches
	case topo.PathPHB, topo.PathNode:
		p.Apart = setting.P2PHostBridge
	}
	return p
}

// worst is a pair with the worst link. One rank alone has NVLink to itself.
func (l *linkSelection) worst() Pair {
	worst := Pair{}
	for _, p := range l.pairs() {
		if p.Kind > worst.Kind || worst.Reason == "" {
			worst = p
		}
	}
	return worst
}

// names describes two ranks.
func (l *linkSelection) names(a, b int) string {
	return fmt.Sprintf("rank %d (%s at %s) and rank %d (%s at %s)", l.name(a), l.all[a].GPU, l.all[a].BusID, l.name(b),
		l.all[b].GPU, l.all[b].BusID)
}

// name is the number of a rank in messages.
func (l *linkSelection) name(r int) int { return bootstrap.NameOf(l.boot, r) }
