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

// ChannelType is how a channel moves data.
type ChannelType string

// The channel types. NoChannel is the type of ops that stay on their rank.
const (
	NoChannel     ChannelType = ""
	MemoryChannel ChannelType = "memory"
	PortChannel   ChannelType = "port"
	SwitchChannel ChannelType = "switch"
	HookChannel   ChannelType = "hook" // between the plan and its caller, see Hook
)

// BufferType is one of the three buffers of a rank.
type BufferType string

// The buffer types.
const (
	Input   BufferType = "i"
	Output  BufferType = "o"
	Scratch BufferType = "s"
)

// Channel is one entry of a rank's channel table.
//
// A memory or port entry opens one channel for every element of ConnectedTo, and a rank may appear more than once. The
// global id of a channel is its position among all elements of that type. The k-th channel of a type from rank a to
// rank b pairs with the k-th channel of that type from b to a: a signal on one arrives at a wait on the other.
//
// A switch entry opens one channel for every group in RankGroups, over the buffer BufferType of all ranks in the group.
// The global id is the position among all groups of all switch entries.
//
// A hook entry opens one channel for every element of Hooks. The global id counts these channels over all
// hook entries.
type Channel struct {
	Type        ChannelType
	ConnectedTo []int
	BufferType  BufferType
	RankGroups  []RankGroup
	Hooks       []Hook
}

// RankGroup is the set of ranks that a switch channel spans.
type RankGroup struct {
	Ranks []int
}

// RemoteBuffer is a buffer of another rank that this rank reads or writes. Its position in GPU.RemoteBuffers is its
// rank-wide id.
type RemoteBuffer struct {
	Rank   int
	Type   BufferType
	Access []ChannelType // memory, port or both
}

// ChannelRefs lists a thread block's channels of one type: the position in IDs is the block's number for the channel,
// the value is its global id.
type ChannelRefs struct {
	Type ChannelType
	IDs  []int
}

// BufferRefs lists a thread block's remote buffers for one access type: the position in IDs is the block's buffer_id,
// the value is the position in GPU.RemoteBuffers.
type BufferRefs struct {
	Access ChannelType
	IDs    []int
}

// ChannelIDs returns the block's global channel ids of type t.
func (tb *ThreadBlock) ChannelIDs(t ChannelType) []int {
	for i := range tb.Channels {
		if tb.Channels[i].Type == t {
			return tb.Channels[i].IDs
		}
	}
	return nil
}

// RemoteBufferIDs returns the block's remote buffers reached over channel type t.
func (tb *ThreadBlock) RemoteBufferIDs(t ChannelType) []int {
	for i := range tb.RemoteBufferRefs {
		if tb.RemoteBufferRefs[i].Access == t {
			return tb.RemoteBufferRefs[i].IDs
		}
	}
	return nil
}

// Peers returns the rank at the other end of every channel of type t (memory or port) of g, by
// global id.
func (g *GPU) Peers(t ChannelType) []int {
	var peers []int
	for i := range g.Channels {
		if g.Channels[i].Type == t {
			peers = append(peers, g.Channels[i].ConnectedTo...)
		}
	}
	return peers
}

// SwitchGroup is one switch channel of a rank.
type SwitchGroup struct {
	Buffer BufferType
	Ranks  []int
}

// SwitchGroups returns the switch channels of g, by global id.
func (g *GPU) SwitchGroups() []SwitchGroup {
	var groups []SwitchGroup
	for i := range g.Channels {
		c := &g.Channels[i]
		if c.Type != SwitchChannel {
			continue
		}
		for j := range c.RankGroups {
			groups = append(groups, SwitchGroup{Buffer: c.BufferType, Ranks: c.RankGroups[j].Ranks})
		}
	}
	return groups
}
