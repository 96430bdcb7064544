package shm

import (
	"context"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/wait"
	"github.com/goccl/goccl/job/share"
)

// mapFor bounds the mapping of the peers' buffers in one request. After a timeout no more buffers of that peer are
// mapped.
const mapFor = 2 * time.Second

// buffers makes user memory reachable across processes by a directory. Other memory is staged.
//
// The first large request on an allocation enters it and is staged. While it runs, each rank maps the new entries of
// its peers and publishes that in its next descriptor. A request runs straight between the buffers once all ranks have
// published that for all its buffers, so all ranks take the same path.
type buffers struct {
	e *Engine
	*share.Directory
}

func newBuffers(e *Engine) *buffers {
	tables := make([]device.Ptr, e.size)
	for r, a := range e.arenas {
		tables[r] = device.Ptr(uintptr(a.base)).Add(directoryOffset(a.n))
	}
	return &buffers{e, share.NewDirectory(e.dev, e.rank, tables)}
}

// place finds, or makes, the place of n bytes at p. other is the request's other buffer; its entry must stay. A buffer
// that peers write to must be one that can be revoked.
func (b *buffers) place(p device.Ptr, n int64, other place, written bool) place {
	out := place{address: uint64(p)}
	if p != 0 && n != 0 {
		at := b.Place(p, n, other.number, written)
		out.number, out.offset = at.Number, at.Offset
	}
	return out
}

// publish stores what this rank has mapped, for the phase that is published next.
func (b *buffers) publish() {
	e := b.e
	known := e.arenas[e.rank].known(e.phase + 1)
	for r := range known {
		known[r] = b.Known(r)
	}
}

// learn maps the entries that peers have added since the last call.
func (b *buffers) learn(limit wait.Limit) {
	end := mapFor
	if limit.Deadline != 0 {
		end = min(end, time.Duration(limit.Deadline-wait.Now()))
	}
	ctx, stop := context.WithTimeout(context.Background(), end)
	defer stop()
	for r := range b.e.size {
		b.Learn(ctx, r)
	}
}

// at is the address in this process of n bytes of a buffer that rank r described, or 0 if it is not mapped.
func (b *buffers) at(r int, p place, n int64) device.Ptr {
	return b.At(r, share.Place{Number: p.number, Offset: p.offset}, n)
}
