package hosts

import "github.com/goccl/goccl/collective"

// Algorithms implements collective.Engine. The engine's own come first, then the local engine's, which do the
// part of a collective that is inside a host. Where there is a choice, GOCCL_ALGO can force it:
//
//	leaders   one rank of each host sends and receives for its host
//	rails     all ranks of a host send and receive: each exchanges its share with the ranks of its rail
//	whole     all ranks of a host exchange the whole message with the ranks of their rail
//	gathered  a host gathers first, and its ranks send the result over every rail
//	relays    a rank receives from other hosts over the local rank on the sender's rail
//	pairs     straight between two ranks
func (e *Engine) Algorithms() []collective.Info {
	var list []collective.Info
	add := func(c collective.Collective, name string, forceable bool, chosen []collective.Span) {
		list = append(list, collective.Info{Name: name, Collective: c, Most: collective.AnySize, Forceable: forceable,
			Tags: map[string]uint64{"hosts": uint64(len(e.members)), "rails": uint64(e.rails)}, Chosen: chosen})
	}
	for c := range collective.NumCollectives {
		for _, name := range e.choices(c, e.inPlace) {
			add(c, name, true, spans(e.rules[c], name))
		}
	}
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
			if len(e.choices(c, e.inPlace)) > 0 {
				continue
			}
			add(c, a.name, false, []collective.Span{{Most: collective.AnySize}})
		}
	}
	for _, a := range e.local.Algorithms() {
		a.Chosen = nil
		list = append(list, a)
	}
	return list
}
