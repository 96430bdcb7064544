package fused

// What the kernels read is in zz_layout.go, from kernels/fused/args.cuh.
//
//go:generate go run ../../tools/layouts

const (
	passBytes = 4 * passStride // of a block

	mostBlocks = 128
	slotRows   = 4        // the most rows of a slot: of 4 MiB, which one launch does, with two ranks
	arenaBytes = 64 << 20 // at most, unless that is less than a block of one row
)

// blockBytes is the part of an arena that belongs to one block.
func blockBytes(ranks int, slot int64) int64 { return areas * 2 * int64(ranks) * slot }

// arena returns the blocks of a launch, of which the engine allows `most`, and the size of their slots. A launch takes
// the rows that its slots hold: slots of several rows save launches.
func arena(ranks, most int, row int64) (blocks, slot int64) {
	blocks = max(1, min(mostBlocks, int64(most), arenaBytes/blockBytes(ranks, row)))
	return blocks, row * max(1, min(slotRows, arenaBytes/(blocks*blockBytes(ranks, row))))
}
