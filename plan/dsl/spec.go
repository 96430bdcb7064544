package dsl

import (
	"cmp"
	"math"

	"github.com/goccl/goccl/plan"
)

// Protocol is how data becomes visible to its reader.
type Protocol = plan.Protocol

// The protocols.
const (
	Simple = plan.Simple // data, then a signal on a channel
	LL     = plan.LL     // packets: every word carries its own flag; scratch holds payload and flags
)

// ReplicationPolicy determines what an instance works on when a program is replicated.
type ReplicationPolicy string

const (
	// Interleaved divides every chunk k into instances chunks k·n … k·n+n−1; instance i works on the i-th of each.
	Interleaved ReplicationPolicy = "interleaved"
	// None keeps chunks as they are; the instances of a block share each operation as a thread-block group does. Port
	// channels cannot share an operation, so they need Interleaved.
	None ReplicationPolicy = "none"
)

// MaxMessageSize is the default upper end of the message range, in bytes.
const MaxMessageSize = math.MaxUint64

// AlgoSpec describes a program before its first operation. Zero values stand for the defaults given here.
type AlgoSpec struct {
	Name         string     `json:"name"`
	Collective   Collective `json:"-"`
	WorldSize    int        `json:"ranks"`                    // 0 takes the collective's
	RanksPerNode int        `json:"ranks_per_node,omitempty"` // ranks of one host; 0: all
	InPlace      bool       `json:"in_place,omitempty"`

	Instances  int      `json:"instances,omitempty"` // copies of every thread block; 0: 1
	Protocol   Protocol `json:"protocol,omitempty"`  // "": Simple
	NoFusion   bool     `json:"-"`                   // do not merge adjacent operations
	NoAutoSync bool     `json:"-"`                   // insert only the block synchronization that SyncType requests
	// one context per plan name, scratch from the executor
	ReuseResources    bool              `json:"reuse_resources,omitempty"`
	ReplicationPolicy ReplicationPolicy `json:"replication_policy,omitempty"` // "": Interleaved

	ThreadsPerBlock int `json:"num_threads_per_block,omitempty"` // 0: 1024
	// consecutive launches use alternating halves of scratch
	UseDoubleScratchBuffer bool   `json:"use_double_scratch_buffer,omitempty"`
	BufferAlignment        int    `json:"buffer_alignment,omitempty"` // bytes of the unit that is never split; 0: 16
	MinMessageSize         uint64 `json:"min_message_size,omitempty"` // bytes
	MaxMessageSize         uint64 `json:"max_message_size,omitempty"` // bytes; 0: no limit

	MaxThreadBlocks int `json:"-"` // maximum number of blocks for automatic assignment, per rank and instance; 0: 32

	// compile signals and waits that do not pair: the plan is not right, the verifier says where
	AllowUnpaired bool `json:"allow_unpaired,omitempty"`

	// check the plan against plan.Portable, so that MSCCL++'s executor accepts it too, instead of plan.Capacity
	Portable bool `json:"portable,omitempty"`

	// record only operations of the ranks for which it is true, for CompileFolded; nil: of all
	Only func(rank int) bool `json:"-"`

	Tags map[string]int `json:"tags,omitempty"` // free-form tags for selection, such as {"hosts": 2}
}

func (s AlgoSpec) withDefaults() AlgoSpec {
	s.WorldSize = cmp.Or(s.WorldSize, s.Collective.Ranks)
	s.RanksPerNode = cmp.Or(s.RanksPerNode, s.WorldSize)
	s.Instances = cmp.Or(s.Instances, 1)
	s.Protocol = cmp.Or(s.Protocol, Simple)
	s.ReplicationPolicy = cmp.Or(s.ReplicationPolicy, Interleaved)
	s.ThreadsPerBlock = cmp.Or(s.ThreadsPerBlock, 1024)
	s.BufferAlignment = cmp.Or(s.BufferAlignment, 16)
	s.MaxMessageSize = cmp.Or(s.MaxMessageSize, MaxMessageSize)
	s.MaxThreadBlocks = cmp.Or(s.MaxThreadBlocks, 32)
	s.InPlace = s.InPlace || s.Collective.InPlace
	s.Collective.InPlace = s.InPlace
	return s
}

// validate records an error for every field that cannot be compiled.
func (p *CollectiveProgram) validate(pos Position) {
	s := &p.spec
	check := func(ok bool, fix, format string, args ...any) {
		if !ok {
			p.fail(pos, ErrSpec, fix, format, args...)
		}
	}
	check(s.Name != "", "name the program: the name is the plan's identity", "the program has no name")
	check(s.Collective.Ranks > 0, "use AllReduce(ranks, …) or another constructor", "the collective has no ranks")
	check(s.WorldSize == s.Collective.Ranks, "", "the program has %d ranks, its collective %d", s.WorldSize,
		s.Collective.Ranks)
	check(s.WorldSize <= 1<<16, "", "%d ranks, at most 65536", s.WorldSize)
	check(s.Instances > 0 && s.Instances <= 1024, "", "%d instances, want 1 to 1024", s.Instances)
	check(s.Protocol == Simple || s.Protocol == LL, `use "Simple" or "LL"`, "protocol %q", s.Protocol)
	check(s.ReplicationPolicy == Interleaved || s.ReplicationPolicy == None, `use "interleaved" or "none"`,
		"replication policy %q", s.ReplicationPolicy)
	check(s.ThreadsPerBlock >= 32 && s.ThreadsPerBlock <= 1024 && s.ThreadsPerBlock%32 == 0,
		"use a multiple of 32 up to 1024", "%d threads per block", s.ThreadsPerBlock)
	check(s.BufferAlignment > 0 && s.BufferAlignment&(s.BufferAlignment-1) == 0, "use a power of two",
		"buffer alignment %d bytes", s.BufferAlignment)
	check(s.MinMessageSize <= s.MaxMessageSize, "", "message range %d to %d bytes is empty", s.MinMessageSize,
		s.MaxMessageSize)
	check(s.RanksPerNode > 0 && s.WorldSize%max(1, s.RanksPerNode) == 0, "", "%d ranks do not fill hosts of %d",
		s.WorldSize, s.RanksPerNode)
	check(s.MaxThreadBlocks > 0, "", "MaxThreadBlocks is %d", s.MaxThreadBlocks)
}

// Contribution is one rank's input chunk that is a part of a result.
type Contribution struct{ Rank, Chunk int }

// Collective describes what a program must compute: the chunk counts of every rank's buffers and the final contents of
// each output chunk. A constructor makes one; Custom makes a user-defined one.
type Collective struct {
	Name                      string // as in a plan: allreduce, allgather, …
	Ranks                     int
	ChunkFactor               int
	InputChunks, OutputChunks int
	InPlace                   bool
	Root                      int // broadcast, reduce

	// Post returns, for a user-defined collective, the input chunks whose reduction output chunk of rank must contain in
	// the end. One input chunk means a copy, none means no constraint. The others' contents follow from the name.
	Post func(rank, chunk int) []Contribution
}

// AllReduce leaves in every rank's output the reduction of all ranks' inputs; ranks·cf chunks each.
func AllReduce(ranks, cf int, inPlace bool) Collective {
	return Named(plan.AllReduce, ranks, cf, 0, inPlace)
}

// AllGather concatenates the inputs of cf chunks in rank order.
func AllGather(ranks, cf int, inPlace bool) Collective {
	return Named(plan.AllGather, ranks, cf, 0, inPlace)
}

// ReduceScatter leaves at rank r the reduction of all ranks' r-th cf input chunks.
func ReduceScatter(ranks, cf int, inPlace bool) Collective {
	return Named(plan.ReduceScatter, ranks, cf, 0, inPlace)
}

// AllToAll transposes: output part s of rank r is input part r of rank s.
func AllToAll(ranks, cf int, inPlace bool) Collective {
	return Named(plan.AllToAll, ranks, cf, 0, inPlace)
}

// Broadcast copies root's cf input chunks to every rank's output.
func Broadcast(ranks, cf, root int, inPlace bool) Collective {
	return Named(plan.Broadcast, ranks, cf, root, inPlace)
}

// Reduce leaves in root's output the reduction of all ranks' inputs of cf chunks; the outputs of the other ranks are
// unspecified.
func Reduce(ranks, cf, root int, inPlace bool) Collective {
	return Named(plan.Reduce, ranks, cf, root, inPlace)
}

// SendRecv sends every rank's cf chunks to the next rank.
func SendRecv(ranks, cf int, inPlace bool) Collective {
	return Named(plan.SendRecv, ranks, cf, 0, inPlace)
}

// Custom describes a user-defined collective by its postcondition.
func Custom(name string, ranks, inputChunks, outputChunks int, inPlace bool,
	post func(rank, chunk int) []Contribution) Collective {
	return Collective{Name: name, Ranks: ranks, ChunkFactor: 1, InputChunks: inputChunks, OutputChunks: outputChunks,
		InPlace: inPlace, Post: post}
}

// Named describes a collective of the format: a buffer has cf chunks, or cf for every rank.
func Named(name plan.Collective, ranks, cf, root int, inPlace bool) Collective {
	c := Collective{Name: string(name), Ranks: ranks, ChunkFactor: cf, InputChunks: cf, OutputChunks: cf, InPlace: inPlace,
		Root: root}
	switch name {
	case plan.AllReduce, plan.AllToAll:
		c.InputChunks, c.OutputChunks = ranks*cf, ranks*cf
	case plan.AllGather:
		c.OutputChunks *= ranks
	case plan.ReduceScatter:
		c.InputChunks *= ranks
	}
	return c
}
