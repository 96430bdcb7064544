package programs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/plan/dsl"
	"github.com/goccl/goccl/plan/symmetry"
)

// Options are the parameters of a generator.
type Options struct {
	Ranks int // world size, 2 or more
	Hosts int // 0: 1; Ranks must be a multiple

	Instances       int // copies of every thread block; 0: the program's default
	InPlace         bool
	Root            int // broadcast, reduce
	ThreadsPerBlock int // 0: 1024
	Alignment       int // bytes; 0: 16
	MinMessageSize  uint64
	MaxMessageSize  uint64 // 0: the program's default
	ReduceOp        dsl.ReduceOp

	only func(rank int) bool // ranks to write; nil: all
}

func (o Options) perHost() int { return o.Ranks / o.Hosts }

func (o Options) host(rank int) int { return rank / o.perHost() }

// Program is one entry of the registry.
type Program struct {
	Name       string
	Collective plan.Collective
	Doc        string // steps and bytes on the wire
	MultiHost  bool   // works over several hosts
	// Hierarchical programs exchange data with the ranks of their host and with the ranks of equal local rank on other
	// hosts. They need 2 or more ranks per host.
	Hierarchical bool
	Peers        int    // to how many ranks a rank has channels at most; 0: all, or as Hierarchical says
	Instances    int    // default; with Wide, the default for several hosts
	Wide         bool   // the default number of instances fills maxWide thread blocks
	MaxSize      uint64 // default upper end of the message range in bytes; 0: none

	parts   bool                         // the root has one chunk for each rank
	packets bool                         // the program moves packets, in alternating halves of scratch
	spec    func(o Options) dsl.AlgoSpec // nil: the collective in one chunk for each rank
	write   func(b *builder)
}

var registry []*Program

func register(p *Program) *Program {
	registry = append(registry, p)
	slices.SortFunc(registry, func(a, b *Program) int { return strings.Compare(a.Name, b.Name) })
	return p
}

// All returns the programs, sorted by name.
func All() []*Program { return slices.Clone(registry) }

// Names returns the names, sorted.
func Names() []string {
	out := make([]string, len(registry))
	for i, p := range registry {
		out[i] = p.Name
	}
	return out
}

// Lookup returns the program with a name.
func Lookup(name string) (*Program, error) {
	for _, p := range registry {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("programs: no program %q: use one of %s", name, strings.Join(Names(), ", "))
}

// Build compiles the named program.
func Build(name string, o Options) (*plan.Plan, error) {
	p, err := Lookup(name)
	if err != nil {
		return nil, err
	}
	return p.Build(o)
}

// Supports returns the reason why the program cannot be built for o, or nil.
func (p *Program) Supports(o Options) error {
	o.Hosts = max(o.Hosts, 1)
	switch {
	case o.Ranks < 2:
		return fmt.Errorf("programs: %s: %d ranks, want 2 or more", p.Name, o.Ranks)
	case o.Ranks > plan.Capacity.Ranks:
		return fmt.Errorf("programs: %s: %d ranks; plans have up to %d", p.Name, o.Ranks, plan.Capacity.Ranks)
	case o.Instances < 0 || o.Instances > plan.Capacity.ThreadBlocks:
		return fmt.Errorf("programs: %s: %d instances, want 0 (the default) to %d", p.Name, o.Instances,
			plan.Capacity.ThreadBlocks)
	case o.Ranks%o.Hosts != 0:
		return fmt.Errorf("programs: %s: %d ranks do not divide among %d hosts", p.Name, o.Ranks, o.Hosts)
	case o.Hosts > 1 && !p.MultiHost:
		return fmt.Errorf("programs: %s works within one host; %d hosts asked for", p.Name, o.Hosts)
	case p.Hierarchical && o.perHost() < 2:
		return fmt.Errorf("programs: %s wants 2 or more ranks per host", p.Name)
	case o.Root < 0 || o.Root >= o.Ranks:
		return fmt.Errorf("programs: %s: root %d of %d ranks", p.Name, o.Root, o.Ranks)
	}
	if n := p.pairs(o); n > maxPairs {
		return fmt.Errorf("programs: %s: %d ranks make %d pairs that talk to each other, all instances counted, over the "+
			"limit of %d: use fewer ranks or instances, or allreduce_hierarchical",
			p.Name, o.Ranks, n, maxPairs)
	}
	return nil
}

// maxPairs bounds the memory for building a program: an op of a plan takes about 1 KB while it is built, and a pair has
// several.
const maxPairs = 1 << 20

// pairs returns how many pairs of ranks a program opens channels between, counted once per instance.
func (p *Program) pairs(o Options) int {
	peers := o.Ranks
	if p.Hierarchical {
		peers = o.perHost() + o.Hosts
	}
	if p.Peers > 0 {
		peers = min(peers, p.Peers)
	}
	return o.Ranks * peers * cmp.Or(o.Instances, p.instances(o))
}

// Program builds the program without compiling it.
func (p *Program) Program(o Options) (*dsl.CollectiveProgram, error) {
	o.Hosts = max(o.Hosts, 1)
	if err := p.Supports(o); err != nil {
		return nil, err
	}
	o.Instances = cmp.Or(o.Instances, p.instances(o))
	root, chunks := 0, 1
	if p.Collective == plan.Broadcast || p.Collective == plan.Reduce {
		root = o.Root
	}
	if p.parts {
		chunks = o.Ranks
	}
	s := dsl.AlgoSpec{Collective: dsl.Named(p.Collective, o.Ranks, chunks, root, o.InPlace)}
	if p.spec != nil {
		s = p.spec(o)
	}
	if p.packets {
		s.Protocol, s.UseDoubleScratchBuffer = dsl.LL, true
	}
	s.Name = p.Name
	s.RanksPerNode = o.perHost()
	s.InPlace = o.InPlace
	s.ThreadsPerBlock = o.ThreadsPerBlock
	s.BufferAlignment = o.Alignment
	s.MinMessageSize = o.MinMessageSize
	s.Instances = cmp.Or(s.Instances, o.Instances)
	s.MaxMessageSize = cmp.Or(o.MaxMessageSize, p.MaxSize)
	s.Only = o.only
	b := newBuilder(s, o)
	p.write(b)
	return b.CollectiveProgram, nil
}

// Fold compiles the program for o when its ranks are symmetric; nil when they are not. Where few ranks show the
// symmetry, the others are not written.
func (p *Program) Fold(o Options) (*symmetry.Folded, error) {
	f, err := dsl.Fold(func(only func(rank int) bool) (*dsl.CollectiveProgram, error) {
		part := o
		part.only = only
		return p.Program(part)
	})
	if f != nil || err != nil {
		return f, err
	}
	whole, err := p.Build(o)
	if err != nil {
		return nil, err
	}
	return symmetry.Fold(whole), nil
}

// A thread block moves 10 to 20 GB/s, and idle blocks do not slow down small messages, so wide programs use many.
// Instances are a power of two, because message sizes usually are.
const (
	maxWide      = 64 // thread blocks
	maxInstances = 16
)

// instances returns the default for o.
func (p *Program) instances(o Options) int {
	if !p.Wide || o.Hosts > 1 || o.Ranks < 3 {
		return max(p.Instances, 1)
	}
	n := 1
	for n < maxInstances && 2*n*min(o.Ranks, maxPeerBlocks) <= maxWide {
		n *= 2
	}
	return n
}

// Build compiles the program for o.
func (p *Program) Build(o Options) (*plan.Plan, error) {
	program, err := p.Program(o)
	if err != nil {
		return nil, err
	}
	return program.Compile()
}
