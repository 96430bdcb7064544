package plan

import (
	"slices"
)

// Link is one end of a memory or port channel.
type Link struct {
	Rank int
	Type ChannelType
	ID   int // global id on the rank
	Peer int // the other rank
	Nth  int // this is the Nth channel of the type from Rank to Peer
	Pair int // index of the other end in the result of Links, or -1 when the peer opens no such channel
}

// Links lists the ends of all memory and port channels of the plan, by rank, then memory before port, then global id. A
// signal on a link arrives at a wait on its Pair.
func (p *Plan) Links() []Link {
	type key struct {
		rank, peer int
		t          ChannelType
		nth        int
	}
	var links []Link
	index := map[key]int{}
	for r := range p.GPUs {
		for _, t := range memOrPort {
			count := map[int]int{}
			for id, peer := range p.GPUs[r].Peers(t) {
				index[key{r, peer, t, count[peer]}] = len(links)
				links = append(links, Link{r, t, id, peer, count[peer], -1})
				count[peer]++
			}
		}
	}
	for i := range links {
		l := &links[i]
		if j, ok := index[key{l.Peer, l.Rank, l.Type, l.Nth}]; ok {
			l.Pair = j
		}
	}
	return links
}

// linkStarts returns, for every rank, the index of its first memory link and of its first port link in Links.
func (p *Plan) linkStarts() [][2]int {
	starts := make([][2]int, len(p.GPUs))
	n := 0
	for r := range p.GPUs {
		for i, t := range memOrPort {
			starts[r][i] = n
			n += len(p.GPUs[r].Peers(t))
		}
	}
	return starts
}

func sortedRanks(ranks []int) []int {
	if slices.IsSorted(ranks) {
		return ranks
	}
	ranks = slices.Clone(ranks)
	slices.Sort(ranks)
	return ranks
}
