package plan

import (
	_ "embed"
	"fmt"
	"iter"
)

// SchemaVersion is the version that Encode writes. Files without the key are version 1, the form that MSCCL++ reads and
// writes. Version 2 only adds optional keys (schema_version, root, postcondition), so a version-1 reader loads it.
const SchemaVersion = 2

// Protocol is how a receiver detects that data has arrived.
type Protocol string

// The protocols. LL plans use packets; a packet is valid when its flag is the launch's epoch.
const (
	Simple Protocol = "Simple"
	LL     Protocol = "LL"
)

// Collective is the name of what a plan computes. A name that is not listed here is user-defined and needs
// Plan.Postcondition to be verified.
type Collective string

// The collectives whose postcondition the verifier derives from the name.
const (
	AllReduce     Collective = "allreduce"
	AllGather     Collective = "allgather"
	ReduceScatter Collective = "reducescatter"
	AllToAll      Collective = "alltoall"
	Broadcast     Collective = "broadcast"
	Reduce        Collective = "reduce"
	SendRecv      Collective = "sendrecv"
)

// Plan is one collective for a fixed number of ranks.
type Plan struct {
	SchemaVersion   int
	Name            string
	Collective      Collective
	Protocol        Protocol
	InPlace         bool  // input and output are one buffer; see Layout for how they overlap
	ReuseResources  bool  // scratch is shared by the communicator's plans instead of owned by the plan
	ThreadsPerBlock int   // 1..1024
	DoubleScratch   bool  // even and odd launches use different halves of scratch
	Alignment       int64 // bytes of the unit in which messages are divided; a power of two
	// accepted message sizes in bytes, both ends included: input bytes, or output bytes for an all-gather
	MinSize       uint64
	MaxSize       uint64
	Root          int        // of a broadcast or reduce
	Postcondition []Postcond // what a user-defined collective computes; empty for the named ones
	GPUs          []GPU      // index is the rank

	Origins *Origins // of a plan that was compiled here; nil if unknown
}

// Postcond states the contents of Size consecutive output chunks of one rank after a launch: chunk Index+i is the
// reduction under Op of chunk Of[j].Index+i of the input of rank Of[j].Rank, over all j. Output chunks that no Postcond
// covers are unconstrained.
type Postcond struct {
	Rank  int
	Index int
	Size  int
	Op    ReduceOp // only matters when Of has more than one entry
	Of    []Contribution
}

// Contribution is one chunk of one rank's input.
type Contribution struct {
	Rank  int
	Index int
}

// GPU is the part of the plan that one rank runs. Chunk counts are logical: Layout turns them into bytes.
type GPU struct {
	ID            int
	InputChunks   int
	OutputChunks  int
	ScratchChunks int
	Channels      []Channel
	RemoteBuffers []RemoteBuffer
	Semaphores    []Semaphore
	ThreadBlocks  []ThreadBlock
}

// ThreadBlock is a program for one block of threads, and the tables that its ops index.
type ThreadBlock struct {
	ID               int
	Channels         []ChannelRefs
	RemoteBufferRefs []BufferRefs
	Ops              []Op
}

// Semaphore is shared by the thread blocks of one rank. Its value persists between launches, so every launch must end
// with the value InitValue.
type Semaphore struct {
	InitValue int
}

// Ops visits every op of the rank with its thread block: a pipeline, then its body.
func (g *GPU) Ops() iter.Seq2[*ThreadBlock, *Op] {
	return func(yield func(*ThreadBlock, *Op) bool) {
		for b := range g.ThreadBlocks {
			tb := &g.ThreadBlocks[b]
			for i := range tb.Ops {
				if !yield(tb, &tb.Ops[i]) {
					return
				}
				for j := range tb.Ops[i].Ops {
					if !yield(tb, &tb.Ops[i].Ops[j]) {
						return
					}
				}
			}
		}
	}
}

// Barriers returns the number of the rank's barriers: one more than the largest id.
func (g *GPU) Barriers() (n int) {
	for _, op := range g.Ops() {
		if op.Name.Kind().Does.Has(Joins) {
			n = max(n, op.BarrierID+1)
		}
	}
	return n
}

// Origins says where in the author's program a plan comes from, for messages. It is not part of the file.
type Origins struct {
	Parts  int         // the author's chunk k is the chunks k·Parts to k·Parts+Parts-1
	Places []string    // "file:line"
	Ops    [][][]int32 // by rank and thread block: the positions in Places of its ops, bodies behind their pipelines
}

// Line returns the author's line of an op, or "".
func (p *Plan) Line(at Pos) string {
	o := p.Origins
	if o == nil || at.Rank < 0 || at.Rank >= len(o.Ops) || at.Block < 0 || at.Block >= len(o.Ops[at.Rank]) {
		return ""
	}
	if at.Block >= len(p.GPUs[at.Rank].ThreadBlocks) {
		return "" // the caller's work at a hook
	}
	ops := p.GPUs[at.Rank].ThreadBlocks[at.Block].Ops
	if at.Op < 0 || at.Op >= len(ops) {
		return ""
	}
	i := at.Op + 1 + at.Inner
	for k := range ops[:at.Op] {
		i += len(ops[k].Ops)
	}
	if list := o.Ops[at.Rank][at.Block]; i < len(list) && list[i] >= 0 && int(list[i]) < len(o.Places) {
		return o.Places[list[i]]
	}
	return ""
}

// ChunkName returns "chunk 3", in the author's numbers: "chunk 1, part 2 of 2".
func (p *Plan) ChunkName(k int) string {
	if p.Origins == nil || p.Origins.Parts < 2 {
		return fmt.Sprintf("chunk %d", k)
	}
	n := p.Origins.Parts
	return fmt.Sprintf("chunk %d, part %d of %d", k/n, k%n+1, n)
}

// Schema is the JSON Schema of a plan file (draft 2020-12).
//
//go:embed schema.json
var Schema []byte
