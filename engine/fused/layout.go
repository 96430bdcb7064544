package fused

// What the kernels read is in zz_layout.go, from kernels/fused/args.cuh.
//
//go:generate go run ../../tools/layouts

const (
	passBytes = 4 * passStride // of a block

	mostBlocks = 128
	arenaBytes = 64 << 20 // at most, unless that is less than a block a rank
)

// blockBytes is the part of an arena that belongs to one block.
func blockBytes(ranks int, slot int64) int64 { return areas * 2 * int64(ranks) * slot }
