package simulate

// meetings counts the blocks whose transfers are under way between the GPUs of a host.
type meetings struct {
	host  int
	pairs []int32      // blocks from a rank to another of its host
	out   []meetsAtEnd // by rank that stands for the sender
	in    []meetsAtEnd
}

// meetsAtEnd counts the transfers under way at one end: the ranks at their other ends, and their blocks.
type meetsAtEnd struct{ peers, blocks int32 }

func newMeetings(ranks, host int) meetings {
	host = min(host, ranks)
	return meetings{host: host, pairs: make([]int32, ranks*host), out: make([]meetsAtEnd, ranks),
		in: make([]meetsAtEnd, ranks)}
}

// open counts the transfers of an op that begins (by 1) or ends (by −1) among those under way.
func (n *network) open(rank int32, in *instr, by int32) {
	if n.wires != nil {
		return
	}
	for i := range in.flows {
		switch f := &in.flows[i]; f.class {
		case getFlow:
			n.meet(f.peer, rank, by)
		case putFlow, packetFlow:
			n.meet(rank, f.peer, by)
		}
	}
}

func (n *network) meet(from, to, by int32) {
	t := &n.meets
	pair := &t.pairs[int(from)*t.host+int(to)%t.host]
	was := *pair
	*pair += by
	change := int32(0)
	if (was == 0) != (*pair == 0) {
		change = by
	}
	for _, e := range [2]*meetsAtEnd{&t.out[n.at[from].rank], &t.in[n.at[to].rank]} {
		e.blocks += by
		e.peers += change
	}
}

// longer is the factor by which a transfer takes longer because of others. Its growth with the number of peers is that
// of switches with queues at their inputs, whose throughput is 1/(1 + 0.7·(1 − 1/k)) (Karol, Hluchyj, Morgan 1987).
func (t *meetings) longer(from, to int32, collide float64) float64 {
	at := &t.in[to]
	k := min(at.peers, t.out[from].peers)
	if k < 2 {
		return 1
	}
	return 1 + collide*(1-1/float64(k))*float64(at.peers)/float64(at.blocks)
}
