package nvlink

// These are the best shapes of a ring block, measured on four H200. With many channels 256 workers are as fast as 512,
// and the blocks of two communicators fit on a GPU. A FIFO has at most four slots: a forwarded part needs no more than
// three, and few slots stay in the cache. Chains have small slots, and more of them.
const (
	ringMany        = 48       // channels from which a launch counts as one of many
	ringManySlot    = 32 << 10 // slot size in bytes with many channels
	ringManyThreads = 256 + pipeSignalers
	ringFewThreads  = ringWorkers + pipeSignalers
	ringLeast       = 16 << 10 // slice bytes that justify a channel
	ringSlots       = 4        // slots of a FIFO, at most

	// A chain is filled part by part, so small parts are better if filling takes much of the time.
	chainSlot     = 16 << 10
	chainSlots    = 6  // small slots of a FIFO, at most
	chainChannels = 96 // with fewer channels larger slots are better
	chainRanks    = 3  // with one hop there is no chain to fill
)

// ringWork holds the inputs that determine the shape of a launch. It is the same on all ranks.
type ringWork struct {
	slice int64 // bytes that the channels share
	ranks int
	chain bool // broadcast, reduce
}

// ringShape is the shape of a launch: blocks, threads per block, and the slot size and slot count of each FIFO.
type ringShape struct {
	channels, threads, slot, slots int64
}

// packed encodes the FIFO for the kernels: slot sizes are multiples of 128 bytes, so the low bits hold the number of
// slots.
func (s ringShape) packed() uint32 { return uint32(s.slot | s.slots) }

// shape lays out a launch with the given number of channels. A FIFO holds at least a chunk and one more slot.
func (w ringWork) shape(channels int64) ringShape {
	s := ringShape{channels, ringFewThreads, 4 * ringManySlot, ringSlots}
	switch {
	case s.channels >= chainChannels && w.chain && w.ranks >= chainRanks:
		s.threads, s.slot, s.slots = ringManyThreads, chainSlot, chainSlots
	case s.channels >= ringMany:
		s.threads, s.slot = ringManyThreads, ringManySlot
	case s.channels >= 32:
		s.slot = 2 * ringManySlot
	}
	s.slots = min(s.slots, ringRegion/(s.channels*s.slot))
	return s
}
