package hosts

import "github.com/goccl/goccl/collective"

// These are the names of the algorithms; none can be forced:
//
//	leaders  one rank of each host sends and receives for its host
//	rails    all ranks of a host send and receive: each exchanges its share with the ranks of its rail
//	relays   a rank receives from other hosts over the rank of its own host on the sender's rail
//	pairs    straight between two ranks
const (
	nameLeaders = "leaders"
	nameRails   = "rails"
	nameRelays  = "relays"
	namePairs   = "pairs"
)

// Algorithms implements collective.Engine. The engine's own come first, then those of the local engine, which do the
// part of a collective that is inside a host.
func (e *Engine) Algorithms() []collective.Info {
	var list []collective.Info
	add := func(c collective.Collective, name string, least, most uint64) {
		list = append(list, collective.Info{Name: name, Collective: c, Most: collective.AnySize,
			Tags:   map[string]uint64{"hosts": uint64(len(e.members)), "rails": uint64(e.rails)},
			Chosen: []collective.Span{{Least: least, Most: most}}})
	}
	add(collective.AllReduce, nameLeaders, 0, leaderBytes)
	add(collective.AllReduce, nameRails, leaderBytes+1, collective.AnySize)
	for _, a := range []struct {
		name string
		list []collective.Collective
	}{
		{nameLeaders, []collective.Collective{collective.Broadcast, collective.Reduce, collective.Barrier}},
		{nameRails, []collective.Collective{collective.AllGather}},
		{nameRelays, []collective.Collective{collective.ReduceScatter, collective.AllToAll, collective.Gather,
			collective.Scatter}},
		{namePairs, []collective.Collective{collective.AllToAllV, collective.AllToAllVDevice, collective.Send,
			collective.Recv}},
	} {
		for _, c := range a.list {
			add(c, a.name, 0, collective.AnySize)
		}
	}
	for _, a := range e.local.Algorithms() {
		a.Chosen = nil
		list = append(list, a)
	}
	return list
}
