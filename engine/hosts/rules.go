package hosts

import (
	"cmp"
	"slices"

	"github.com/goccl/goccl/collective"
)

// Names of the algorithms of collectives that have a choice.
const (
	// nameWhole is an all-reduce that goes as a whole over every rail.
	nameWhole = "whole"
	// nameGathered is an all-gather that sends over every rail what a host has gathered.
	nameGathered = "gathered"
	nameLeaders  = "leaders"
	nameRails    = "rails"
	nameRelays   = "relays"
	namePairs    = "pairs"
)

// Row assigns an algorithm to messages of up to Bytes bytes; 0 is any size. Bytes is the whole buffer of a rank, as in
// nccl-tests. Of an all-to-all-v it is the average message between ranks of different hosts, times the ranks.
type Row struct {
	Bytes     int64  `json:"bytes"`
	Algorithm string `json:"algorithm"`
}

// rules are the rows by collective, which all ranks have in common. A collective without rows has no choice.
type rules [collective.NumCollectives][]Row

// choices are the algorithms between which a collective has a choice in a topology.
func (t *topology) choices(c collective.Collective, inPlace bool) []string {
	switch c {
	case collective.AllReduce:
		if inPlace && t.isEven() {
			return []string{nameWhole, nameLeaders, nameRails}
		}
		return []string{nameLeaders, nameRails}
	case collective.AllGather:
		if !t.isEven() || slices.ContainsFunc(t.members, func(m []int) bool { return m[len(m)-1]-m[0] != len(m)-1 }) {
			return nil
		}
		return []string{nameGathered, nameRails}
	case collective.AllToAll:
		return []string{namePairs, nameRelays}
	case collective.AllToAllV:
		if t.rails > 1 {
			return []string{namePairs, nameRelays}
		}
	}
	return nil
}

// rows are what was measured with the two kinds of wires. On GPUs, whose wire reduces in place, a launch takes longer
// than a few more messages on the network.
func (t *topology) rows(c collective.Collective, inPlace bool) []Row {
	const any = 0
	if len(t.choices(c, inPlace)) == 0 {
		return nil
	}
	few := inPlace && t.size() <= directRanks
	switch c {
	case collective.AllReduce:
		if inPlace && t.isEven() {
			return []Row{{wholeBytes, nameWhole}, {any, nameRails}}
		}
		return []Row{{leaderBytes, nameLeaders}, {any, nameRails}}
	case collective.AllGather:
		if inPlace {
			return []Row{{gatheredBytes, nameGathered}, {any, nameRails}}
		}
		return []Row{{any, nameRails}}
	case collective.AllToAllV:
		if !few {
			return []Row{{relayBytes * int64(t.size()), nameRelays}, {any, namePairs}}
		}
	case collective.AllToAll:
		if !few {
			return []Row{{any, nameRelays}}
		}
	}
	return []Row{{any, namePairs}}
}

// measured are the rules without a table.
func (t *topology) measured(inPlace bool) *rules {
	var r rules
	for c := range r {
		r[c] = t.rows(collective.Collective(c), inPlace)
	}
	return &r
}

// choose is the algorithm for a message. force is the name that the request has, or "".
func (r *rules) choose(t *topology, c collective.Collective, inPlace bool, force string, bytes int64) string {
	if force != "" && slices.Contains(t.choices(c, inPlace), force) {
		return force
	}
	for _, row := range r[c] {
		if row.Bytes == 0 || bytes <= row.Bytes {
			return row.Algorithm
		}
	}
	return ""
}

// choose is the algorithm for the builder's request of that many bytes.
func (b *builder) choose(bytes int64) string {
	return b.rules.choose(b.topology, b.r.Collective, b.inPlace, b.r.Algorithm, bytes)
}

// spans are the sizes for which the rows choose an algorithm.
func spans(rows []Row, name string) (list []collective.Span) {
	least := uint64(0)
	for _, row := range rows {
		most := cmp.Or(uint64(row.Bytes), collective.AnySize)
		if row.Algorithm == name {
			list = append(list, collective.Span{Least: least, Most: most})
		}
		least = most + 1
	}
	return list
}
