package dsl

import "github.com/goccl/goccl/plan"

// instance maps the parts of a program to the parts of copy i of n. Thread block, channel, semaphore or barrier v
// becomes v·n+i.
type instance struct {
	i, n   int
	policy ReplicationPolicy
}

func (x instance) id(v int) int { return v*x.n + x.i }

// index returns where the instance's share of a range of chunks begins, in the finer chunks of the replicated program.
func (x instance) index(index, size int) int {
	if x.policy == None {
		return index
	}
	return index*x.n + x.i*size
}

// chunks returns a buffer's length in the chunks of the replicated program.
func (x instance) chunks(v int) int {
	if x.policy == None {
		return v
	}
	return v * x.n
}

// slice returns the instance's part of an operation that moves data.
func (x instance) slice(o *operation) plan.Slice {
	if x.policy != None || x.n == 1 || !o.movesData() {
		return plan.Slice{Index: o.slice, Count: o.of}
	}
	return plan.Slice{Index: o.slice*x.n + x.i, Count: max(o.of, 1) * x.n}
}

// checkReplication records operations that the policy cannot replicate.
func (p *CollectiveProgram) checkReplication() {
	if p.spec.Instances == 1 || p.spec.ReplicationPolicy != None {
		return
	}
	for _, r := range p.ranks {
		for _, o := range r.ops {
			if o.channelType == plan.PortChannel && o.movesData() {
				p.fail(o.pos, ErrUsage, "use ReplicationPolicy Interleaved",
					"%s on a port channel cannot be shared by %d instances", o.kind, p.spec.Instances)
			}
		}
	}
}
