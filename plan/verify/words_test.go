package verify

import (
	"github.com/goccl/goccl/plan"
	"github.com/goccl/goccl/test/sketch"
)

// Short words for plans in tests.
var (
	mesh       = sketch.Mesh
	nop        = sketch.Nop
	sync       = sketch.Sync
	copyOp     = sketch.Copy
	put        = sketch.Put
	putPackets = sketch.PutPackets
	unpack     = sketch.Unpack
)

func in(k, n int) plan.Chunk      { return plan.Local(plan.Input, k, n) }
func out(k, n int) plan.Chunk     { return plan.Local(plan.Output, k, n) }
func scratch(k, n int) plan.Chunk { return plan.Local(plan.Scratch, k, n) }

func get(src, dst plan.Chunk) plan.Op {
	return plan.Op{Name: plan.Get, ChannelType: plan.MemoryChannel, Src: []plan.Chunk{src}, Dst: []plan.Chunk{dst}}
}

// holds is the postcondition of a chunk that is a copy of one input.
func holds(rank, chunk, ofRank, ofChunk int) plan.Postcond {
	return plan.Postcond{Rank: rank, Index: chunk, Size: 1, Of: []plan.Contribution{{Rank: ofRank, Index: ofChunk}}}
}
