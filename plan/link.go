package plan

import "slices"

// Link is one end of a memory or port channel, or of a hook.
type Link struct {
	Rank int
	Type ChannelType
	ID   int // global id on the rank
	Peer int // the other rank
	Nth  int // this is the Nth channel of the type from Rank to Peer
	Pair int // index of the other end in the result of Links, or -1 when the peer opens no such channel
}

// Links are the ends of all memory channels, port channels and hooks of a plan, by rank, then in this order, then by
// global id. A signal on a link arrives at a wait on its Pair.
type Links struct {
	All   []Link
	start [][3]int // of every rank's memory, port and hook links; the total at the end
}

// Links lists the channel ends of the plan.
func (p *Plan) Links() *Links {
	type key struct {
		rank, peer int
		t          ChannelType
		nth        int
	}
	l := &Links{start: make([][3]int, len(p.GPUs)+1)}
	index := map[key]int{}
	for r := range p.GPUs {
		for i, t := range memOrPort {
			l.start[r][i] = len(l.All)
			count := map[int]int{}
			for id, peer := range p.GPUs[r].Peers(t) {
				index[key{r, peer, t, count[peer]}] = len(l.All)
				l.All = append(l.All, Link{r, t, id, peer, count[peer], -1})
				count[peer]++
			}
		}
		first := len(l.All)
		l.start[r][2] = first
		own, pairs := p.GPUs[r].hookLinks(r)
		for i := range own {
			own[i].Pair = first + pairs[i]
		}
		l.All = append(l.All, own...)
	}
	l.start[len(p.GPUs)] = [3]int{len(l.All), len(l.All), len(l.All)}
	for i := range l.All {
		e := &l.All[i]
		if e.Type == HookChannel {
			continue
		}
		if j, ok := index[key{e.Peer, e.Rank, e.Type, e.Nth}]; ok {
			e.Pair = j
		}
	}
	return l
}

// Index returns the index in All of channel id of type t on rank.
func (l *Links) Index(rank int, t ChannelType, id int) int {
	switch t {
	case PortChannel:
		return l.start[rank][1] + id
	case HookChannel:
		return l.start[rank][2] + id
	}
	return l.start[rank][0] + id
}

// Of returns the range in All of the links of a rank.
func (l *Links) Of(rank int) (first, end int) { return l.start[rank][0], l.start[rank+1][0] }

func sortedRanks(ranks []int) []int {
	if slices.IsSorted(ranks) {
		return ranks
	}
	ranks = slices.Clone(ranks)
	slices.Sort(ranks)
	return ranks
}
