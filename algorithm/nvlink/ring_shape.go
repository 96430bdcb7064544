package nvlink

// What a block of the ring does best with, as measured on four H200. With many channels 256 workers are as fast as 512, and the blocks of two communicators fit
// on a GPU. A FIFO has no more than four slots, but in chains, whose slots are small: a part that is passed on needs no more than three, and what is in few
// slots stays in the cache.
const (
	ringMany        = 48       // channels from which on there are many
	ringManySlot    = 32 << 10 // bytes of a slot of many channels
	ringManyThreads = 256 + ringTellers
	ringFewThreads  = ringWorkers + ringTellers
	ringLeast       = 16 << 10 // bytes of a slice that are worth a channel
	ringSlots       = 4        // of a FIFO, at most

	// A chain is filled part by part, and so small parts are better where that is much of the time.
	chainSlot     = 16 << 10
	chainSlots    = 6  // of a FIFO of such slots, at most
	chainChannels = 96 // fewer are better off with larger slots
	chainRanks    = 3  // one hop has nothing to fill
)

// ringWork is what the shape of a launch depends on. It is the same on all ranks.
type ringWork struct {
	slice int64 // bytes that are divided among the channels
	ranks int
	chain bool // broadcast, reduce
}

// ringShape is a launch's: blocks, threads of each, and what the FIFO of each is.
type ringShape struct {
	channels, threads, slot, slots int64
}

// packed is the shape's FIFO as the kernels want it: slots are multiples of 128 bytes.
func (s ringShape) packed() uint32 { return uint32(s.slot | s.slots) }

// shape lays out a launch of at most that many channels. There is room for a chunk and one slot more, at least.
func (w ringWork) shape(channels int64) ringShape {
	s := ringShape{min(channels, (w.slice+ringLeast-1)/ringLeast), ringFewThreads, 4 * ringManySlot, ringSlots}
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
