package executor

import "unsafe"

// These mirror kernels/executor/program.cuh.
const (
	gpuRanks         = 16
	gpuRegions       = 32
	gpuThreads       = 512
	gpuControlBytes  = 128 // records, followed by the inbound counters
	gpuInboundStride = 32
	gpuCallersOp     = 255
)

const (
	gpuRaw = 1 << iota
	gpuInner
	gpuPackets
	gpuRelaxed
	gpuMeet
	gpuStatic
	gpuCounted
)

// Codes of the kernel that the table of ops does not have.
const (
	gpuPush       = 10
	gpuPushSignal = 11
)

type gpuOp struct {
	code, flags, reduction, pair uint8
	sources, destinations        uint16
	first, count, to, io         uint32
	slice, slices                uint16
	chunks                       uint32
	unit, _                      uint64
}

// gpuItem is an operand: rank, plane, chunks where it is static, index, block, within; or an entry: peer, mine, theirs,
// signals.
type gpuItem struct {
	a                    [2]uint8
	chunks               uint16
	index, block, within uint32
}

type gpuHeader struct{ ops, items, epoch, count uint32 }

type gpuRank struct {
	control, scratch uint64
	plain, packets   [2]uint64
	planeBytes       uint64
	size             [2]uint64
	_                uint64
}

type gpuArgs struct {
	rank                                            [gpuRanks]gpuRank
	program, far, barriers, semaphores              uint64
	expected, peers, regions, abort                 uint64
	counts                                          uint64
	buffer                                          [2]uint64
	block, chunk                                    uint64
	period, shift, self, nranks, stride, shared, op uint32
	linear, publish, signature                      uint32
	region                                          [2]uint32
	offset                                          [2]uint64
	bulk, _                                         uint32
}

// gpuFar mirrors Far of kernels/executor/far.cuh.
type gpuFar struct {
	abort, links                    uint64
	lanes, slots, slotBytes, blocks uint32
	_, locks, turns, left           uint64
	plan, count, peers, _           uint32
	peer                            [gpuRanks]uint16
}

type gpuQuickArgs struct {
	packets                [gpuRanks][2]uint64
	room                   [gpuRanks]uint64
	program, abort         uint64
	buffer, size, plain    [2]uint64
	chunk                  uint64
	self, shift, stride, _ uint32
}

var (
	_ = [1]struct{}{}[unsafe.Sizeof(gpuQuickArgs{})-(16*24+9*8+4*4)]
	_ = [1]struct{}{}[unsafe.Sizeof(gpuFar{})-112]
	_ = [1]struct{}{}[unsafe.Sizeof(gpuOp{})-48]
	_ = [1]struct{}{}[unsafe.Sizeof(gpuItem{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(gpuHeader{})-16]
	_ = [1]struct{}{}[unsafe.Sizeof(gpuRank{})-80]
	_ = [1]struct{}{}[unsafe.Sizeof(gpuArgs{})-(16*80+11*8+2*8+10*4+2*4+2*8+2*4)]
)
