package shm

import (
	"unsafe"

	"golang.org/x/sys/cpu"

	"github.com/goccl/goccl/device"
)

// blockBytes is the number of bytes that spreadBlocks copies at a time.
const blockBytes = 256

var hasBlocks = cpu.X86.HasAVX2

// spreadBlocks copies n bytes, a multiple of blockBytes and more than 0, from src to off bytes into each of ndst
// destinations.
//
//go:noescape
func spreadBlocks(dsts *device.Ptr, ndst int, off int64, src *byte, n int)

// spreadVector copies all whole blocks and returns their bytes.
func spreadVector(dsts []device.Ptr, off int64, src []byte) int {
	n := len(src) &^ (blockBytes - 1)
	if !hasBlocks || n == 0 || len(dsts) == 0 {
		return 0
	}
	spreadBlocks(unsafe.SliceData(dsts), len(dsts), off, unsafe.SliceData(src), n)
	return n
}
