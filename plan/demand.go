package plan

import "slices"

// Demand is what an output chunk must contain when a launch has ended.
type Demand struct {
	Of        []Contribution // sorted by rank, then index
	Untouched bool           // the plan must not write it
	Free      bool           // unconstrained
	Op        ReduceOp       // of a user-defined reduction; AnyOp for the named collectives
}

// AnyOp stands for any one operator.
const AnyOp ReduceOp = "any"

// Demands returns what the output chunks of a rank must contain.
func (p *Plan) Demands(rank int) []Demand {
	n, period := len(p.GPUs), p.Period()
	out := make([]Demand, p.ChunkCount(rank, Output))
	all := func(k int) []Contribution {
		of := make([]Contribution, n)
		for r := range of {
			of[r] = Contribution{r, k}
		}
		return of
	}
	for k := range out {
		d := Demand{Op: AnyOp}
		switch p.Collective {
		case AllReduce:
			d.Of = all(k)
		case AllGather:
			d.Of = []Contribution{{k / period, k % period}}
		case ReduceScatter:
			d.Of = all(rank*period + k)
		case AllToAll:
			d.Of = []Contribution{{k / period, rank*period + k%period}}
		case Broadcast:
			d.Of = []Contribution{{p.Root, k}}
		case Reduce:
			if rank == p.Root {
				d.Of = all(k)
			} else {
				d.Untouched = true
			}
		case SendRecv:
			d.Of = []Contribution{{(rank + n - 1) % n, k}}
		default:
			d.Free = true
		}
		out[k] = d
	}
	for i := range p.Postcondition {
		c := &p.Postcondition[i]
		if c.Rank != rank {
			continue
		}
		for k := range c.Size {
			of := slices.Clone(c.Of)
			for j := range of {
				of[j].Index += k
			}
			slices.SortFunc(of, func(a, b Contribution) int {
				if a.Rank != b.Rank {
					return a.Rank - b.Rank
				}
				return a.Index - b.Index
			})
			out[c.Index+k] = Demand{Of: of, Op: c.Op}
		}
	}
	return out
}

// MovesChunks reports whether the plan's result alone implies that it accepts even messages only: bytes of one chunk
// end up at the place of another, or its chunks do not form blocks. The way a plan computes its result may also imply
// it: see Report.EvenOnly.
func (p *Plan) MovesChunks() bool {
	_, period, custom := p.Blocks()
	for i := range p.Postcondition {
		c := &p.Postcondition[i]
		for _, t := range c.Of {
			custom = custom || t.Index%period != c.Index%period
		}
	}
	return custom
}

// Expected returns, for every output chunk of a rank, the input chunks whose reduction it must contain, sorted by rank.
// The list is empty for chunks that the collective does not constrain.
func (p *Plan) Expected(rank int) [][]Contribution {
	var out [][]Contribution
	for _, d := range p.Demands(rank) {
		out = append(out, d.Of)
	}
	return out
}
