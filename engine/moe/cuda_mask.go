package moe

import (
	"context"
	"errors"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/launcher"
)

// kindState is what the kernels of a kind keep, and the mask. A block reads all of it with its number.
type kindState struct {
	number   uint32 // launches
	_        uint32 // blocks of the running launch that have ended
	mask     word
	replicas uint32 // experts that the table of replicas is for; 0: there is none
	_        uint32 // layout ZeroCopy: 1 if the latest dispatch has not told that it has ended
	_        [3]uint32
}

func (e *cudaEngine) state(kind int) uint64 {
	return uint64(e.launcher.State.Ptr()) + stateTicket + uint64(kind)*uint64(unsafe.Sizeof(kindState{}))
}

func (e *cudaEngine) replicas() uint64 { return uint64(e.launcher.State.Ptr()) + stateReplicas }

// idle waits for all work of the communicator.
func (e *cudaEngine) idle(ctx context.Context) error { return e.launcher.Order.Wait(ctx) }

func (e *cudaEngine) latest() (n numbers, err error) {
	var states [kinds + 1]kindState
	err = e.dev.CopyOut(launcher.Raw(&states), device.Ptr(e.state(0)))
	for k, s := range states {
		n[k] = s.number
	}
	return n, err
}

func (e *cudaEngine) restart(n numbers, w word, replicas []int32) error {
	var states [kinds + 1]kindState
	for k := range states {
		states[k] = kindState{number: n[k], mask: w, replicas: uint32(len(replicas))}
	}
	const line = MaxRanks * 64 / 4
	ended := make([]uint32, kinds*line) // of which the first two of each 64 bytes count
	for i := range ended {
		ended[i] = n[i/line]
	}
	e.launcher.Abort.Clear()
	return errors.Join(e.dev.CopyIn(device.Ptr(e.state(0)), launcher.Raw(&states)),
		e.dev.CopyIn(device.Ptr(e.replicas()), device.BytesOf(replicas)),
		e.dev.CopyIn(e.b.memory.Ptr[e.b.rank].Add(e.b.arena.ended(0, 0)), device.BytesOf(ended)))
}
