package fused

// These mirror kernels/fused/args.cuh; a test compares the sizes.
const (
	maxRanks  = 16
	areas     = 2
	passBytes = 128 // of a block

	mostBlocks = 128
	arenaBytes = 64 << 20 // at most, unless that is less than a block a rank
)

type kernelArgs struct {
	ticket                                  uint64
	window                                  [maxRanks]uint64
	abort, passes                           uint64
	input, sum, residual, residualOut       uint64
	weight, norm, quant, scale, scaleOut    uint64
	slotBytes, rank, nranks, tokens, hidden uint32
	quantisation, quantType, stage, divided uint32
	epsilon                                 float32
	first, end, slice                       uint32
}

// blockBytes is the part of an arena that belongs to one block.
func blockBytes(ranks int, slot int64) int64 { return areas * 2 * int64(ranks) * slot }
