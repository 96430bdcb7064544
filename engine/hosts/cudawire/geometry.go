package cudawire

// geometry is the shape of the rings between two ranks. Both must have the same.
type geometry struct {
	lanes, slots, slotBytes int64
	// least is the smallest chunk of a message that has several.
	least int64
}

const (
	mostOfRail = 128 << 20 // bytes of the rings of a rank that has one peer on each other host
	mostOfSlot = 128 << 10
	leastSlot  = 16 << 10
)

// geometryOf is the geometry of a communicator of ranks on the given number of hosts.
func geometryOf(hosts int) geometry {
	g := geometry{lanes: 4, slots: 8, least: 16 << 10}
	g.slotBytes = mostOfRail / (2 * g.lanes * g.slots * int64(max(1, hosts-1))) &^ 4095
	g.slotBytes = max(leastSlot, min(mostOfSlot, g.slotBytes))
	g.least = min(g.least, g.slotBytes-header)
	return g
}

// ringBytes is the size of the rings of one direction.
func (g geometry) ringBytes() int64 { return g.lanes * g.slots * g.slotBytes }

// chunks returns the size and the number of the chunks of a message: Chunks in wire.cuh.
func (g geometry) chunks(bytes int64) (size, count int64) {
	rounds := (bytes + g.lanes*(g.slotBytes-header) - 1) / (g.lanes * (g.slotBytes - header))
	parts := max(1, rounds) * g.lanes
	size = max(((bytes+parts-1)/parts+15)&^15, g.least)
	return size, max(1, (bytes+size-1)/size)
}

// data returns the immediate that counts the arrivals in a slot; credit returns the one that counts a lane's credits.
func (g geometry) data(lane, slot int64) uint32 { return uint32(lane*g.slots + slot) }
func (g geometry) credit(lane int64) uint32     { return uint32(g.lanes*g.slots + lane) }

// half is the number of chunks that one credit stands for.
func (g geometry) half() uint64 { return uint64(g.slots / 2) }
