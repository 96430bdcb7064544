package simulate

import (
	"github.com/goccl/goccl/plan/symmetry"
)

// RunFolded is Run of a folded plan. It runs one representative of each orbit of ranks. The machine must be symmetric
// too: renamings that split a host, a NIC's ranks or a leaf switch are not used.
//
// What a rank sends to another arrives, renamed, at the rank that stands for that one, in its ports, counters and
// packets. Events of one time are served in another order than in Run, so times differ slightly where ports are
// contended.
func RunFolded(f *symmetry.Folded, m *Machine, size int64) (*Result, error) {
	if m.Fabric != nil {
		return Run(f.Unfold(), m, size)
	}
	if err := m.Validate(); err != nil {
		return nil, err
	}
	if f = f.Within(m.keeps); f.Symmetry.Order() == 1 {
		return Run(f.Plan, m, size)
	}
	mod, err := load(f.Plan, f.Symmetry, m, size)
	if err != nil {
		return nil, err
	}
	return mod.run(size)
}

// keeps reports whether a renaming of ranks takes hosts to hosts, NICs to NICs, rails to rails and leaves to leaves.
func (m *Machine) keeps(ranks []int32) bool {
	if len(ranks)%m.RanksPerHost != 0 {
		return ranks[0] == 0 // the last host differs
	}
	for _, part := range []func(int32) int32{m.hostOf, m.nicOf, m.railOf, m.leafOf} {
		image := map[int32]int32{}
		for r, to := range ranks {
			from := part(int32(r))
			if was, ok := image[from]; ok && was != part(to) {
				return false
			}
			image[from] = part(to)
		}
	}
	return true
}

func (m *Machine) hostOf(rank int32) int32 { return rank / int32(m.RanksPerHost) }

// railOf returns the number of a rank's NIC on its host.
func (m *Machine) railOf(rank int32) int32 {
	return rank % int32(m.RanksPerHost) % int32(m.NICsPerHost)
}

// nicOf returns the first rank that uses a rank's NIC.
func (m *Machine) nicOf(rank int32) int32 {
	return rank - rank%int32(m.RanksPerHost) + m.railOf(rank)
}

// leafOf returns the number of the leaf switch that a rank's NIC is on: with rails, one for each rail and group of
// hosts.
func (m *Machine) leafOf(rank int32) int32 {
	if m.Rail.HostsPerLeaf == 0 {
		return 0
	}
	return m.hostOf(rank)/int32(m.Rail.HostsPerLeaf)*int32(m.NICsPerHost) + m.railOf(rank)
}
