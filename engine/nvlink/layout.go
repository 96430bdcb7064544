package nvlink

// What the kernels read is in zz_layout.go, from kernels/collective and kernels/probe. p2pFewArgs is for launches with
// few messages: the driver copies all parameters of a launch, used or not.
//
//go:generate go run ../../tools/layouts

const (
	maxBlocks   = 192
	llBlocks    = 32             // of LL, whose operations are small
	epochStride = 4 * epochWords // bytes

	p2pSpreadBytes = 15360 // of LL128
	p2pSpreadLL    = 2048

	streamThreads = streamWorkers + pipeSignalers
	streamDefault = 8 // channels of streams into mapped buffers
	streamStages  = 6
	streamStage   = streamPieceBytes + 8 // bytes of shared memory

	ringRegion = 12 << 20

	lamportBytes   = 8 << 20   // of the slots
	lamportCore    = 64 << 10  // of the slots of one parity in an arena without pieces
	lamportInstead = 512 << 10 // an all-reduce above it that no Lamport kernel takes is two-shot
)

// slotBytes is the size of one slot of a block's area: as large as 24 MiB of areas allow, at most what 512 threads
// fill.
func slotBytes(n int) int64 { return min(8<<10, (24<<20)/(maxBlocks*4*int64(n))) &^ 511 }

// piece is a part of the memory that peers write. They may be apart from the arena, and then
// they are made at their first use (share.Pieces): small messages need none of them.
type piece uint8

const (
	// The areas of a protocol's blocks are pieces of the protocol's number. LL and LL128 share no line: protocol.cuh.
	pieceMessages = piece(numProtocols) + iota
	pieceStreams  // and the ring, and direct
	numPieces
)

// coreBlocks is how many blocks have areas in an arena without pieces. 4 MiB hold them, the slots of small Lamport
// launches, and the probe's.
const coreBlocks = 15

// layout is where the parts of an arena lie: the pieces, or coreBlocks of each area if the pieces are made later; the
// slots of the probe, the tokens, and a stage for each sender. Without NVLink there are no areas of LL128.
type layout struct {
	n     int
	ll128 bool
	stage int64 // bytes of a stage
	later bool  // the pieces are made later
}

// bytes is the size of a piece.
func (l layout) bytes(k piece) int64 {
	block := 4 * int64(l.n) * slotBytes(l.n)
	switch {
	case k == piece(ll):
		return llBlocks * block
	case k == piece(ll128) && l.ll128:
		return maxBlocks * block
	case k == piece(lamport) && pushes(l.n):
		return lamportBytes
	case k == pieceMessages:
		return p2pBytes(l.n)
	case k == pieceStreams:
		return streamBytes(l.n) + ringFlagBytes(l.n) + directBytes(l.n)
	}
	return 0
}

// core is how much of a piece an arena without pieces holds.
func (l layout) core(k piece) int64 {
	most := coreBlocks * 4 * int64(l.n) * slotBytes(l.n)
	if k == piece(lamport) {
		most = 2 * lamportCore
	}
	return min(l.bytes(k), most)
}

// lamportSlot is the size of a slot where the slots of one parity have so many bytes.
func lamportSlot(bytes int64, n int) int64 { return bytes / int64(n-1) &^ 31 }

// lamportMost is the size of the largest all-reduce by Lamport packets. A slice takes half a slot of a two-shot one.
func lamportMost(twoShot bool, n int) int64 {
	slot := lamportSlot(lamportBytes/2, n)
	if twoShot {
		return slot / 2 * int64(n)
	}
	return slot
}

// pushes reports whether there are Lamport kernels for n ranks.
func pushes(n int) bool { return n == 2 || n == 4 || n == 8 }

// offset is where a piece begins in the arena, or the core of its areas.
func (l layout) offset(k piece) (at int64) {
	for i := range k {
		switch {
		case !l.later:
			at += l.bytes(i)
		case i < pieceMessages:
			at += l.core(i)
		}
	}
	return at
}

func (l layout) probeOffset() int64 { return l.offset(numPieces) }
func (l layout) tokenOffset() int64 { return l.probeOffset() + probeSlots(l.n) }
func (l layout) stageOffset() int64 { return l.tokenOffset() + tokenBytes }
func (l layout) arenaBytes() int64  { return l.stageOffset() + int64(l.n)*l.stage }

func p2pBytes(n int) int64 {
	return int64(n)*p2pChannels*p2pDepth*p2pSlotBytes + int64(n)*p2pChannels*128
}

// channelsOf halves the number of channels for more than 8 ranks, as the kernels do.
func channelsOf(most, n int) int {
	if n > 8 {
		return most / 2
	}
	return most
}

// streamBytes grows with the ranks only by the words: a ring is granted to one sender at a time.
func streamBytes(n int) int64 {
	return streamChannels*streamRingBytes + int64(n)*streamChannels*2*128
}

// ring.cuh places its FIFOs in the rings of the streams, and its flags and credits after their words. The flags and
// credits of ring_fold.cuh follow, per peer.
const _ = uint64(streamChannels*streamRingBytes - ringRegion)

func ringFlagBytes(n int) int64 { return ringChannels * ringLine * int64(1+n) }

// The state of an engine in device memory: epochs by block, the counters of point_to_point and of
// point_to_point_stream, a scratch word to receive into, the counters of ring.cuh by channel, the word of the tickets,
// and the number of Lamport launches by block.
const (
	stateCounters = maxBlocks * epochStride
	stateStream   = stateCounters + maxRanks*2*p2pChannels*32*4
	stateScratch  = stateStream + maxRanks*2*streamChannels*32*4
	stateRing     = stateScratch + 4096
	stateTicket   = stateRing + ringChannels*epochStride
	stateLamport  = stateTicket + 128
	stateBytes    = stateLamport + lamportBlocks*4
)
