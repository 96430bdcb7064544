package shm

import "github.com/goccl/goccl/device"

// spread copies src, which is in a cache, to off bytes into each of dsts. All destinations get a block before any gets
// the next, by plain stores into lines that were prefetched some blocks before. The reads of these lines overlap. One
// copy after the other (a string instruction, for pieces of this size) would pay the memory latency for each. src must
// not overlap any of dsts.
func spread(dsts []device.Ptr, off int64, src []byte) {
	for _, d := range dsts {
		writes(device.Bytes(d.Add(off), int64(len(src))))
	}
	done := spreadVector(dsts, off, src)
	for _, d := range dsts {
		copy(device.Bytes(d.Add(off+int64(done)), int64(len(src)-done)), src[done:])
	}
}
