package executor

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/job/share"
)

// buffers make the users' buffers of the host device accessible to ranks of other processes.
type buffers struct {
	*share.Directory
	arena *arena // holds the tables
}

// openBuffers is collective.
func openBuffers(ctx context.Context, e *Executor, dev *host.Device) (*buffers, error) {
	arena, err := e.newArena(ctx, dev, share.DirectoryBytes)
	if err != nil {
		return nil, err
	}
	return &buffers{share.NewDirectory(dev, e.rank, arena.Ptr), arena}, nil
}

func (b *buffers) close() error {
	if b == nil {
		return nil
	}
	return errors.Join(b.Close(), b.arena.Close())
}

// rankBuffers holds the addresses of a rank's planes in this launch.
type rankBuffers struct {
	known  atomic.Bool // input and output are resolved; always set for this rank's own
	buffer [2]span
	held   [2]*share.Held // what keeps buffer mapped, until the next launch
}

// release ends the previous launch's use of the peers' buffers, and unmaps those that were freed.
func (r *run) release() {
	all := r.h.x.e.buffers
	if all == nil {
		return
	}
	for i := range r.bases {
		for k, h := range r.bases[i].held {
			if h != nil {
				all.Release(h)
				r.bases[i].held[k] = nil
			}
		}
	}
	all.Sweep()
}

// describe fills in the record from which peers find a buffer. keep is the other buffer's directory entry.
func (r *run) describe(rec *bufferRecord, k int, p device.Ptr, size int64, keep uint32) {
	rec.kind, rec.number = bufferNone, 0
	if p == 0 || size == 0 || !r.h.x.program.touched[k] {
		return
	}
	rec.kind, rec.address, rec.size = bufferLocal, uint64(p), uint64(size)
	if r.h.local {
		return
	}
	if at := r.h.x.e.buffers.Place(p, size, keep, false); at.Number != 0 {
		rec.kind, rec.number, rec.offset = bufferShared, at.Number, at.Offset
	}
}

// published reports whether a peer has published its buffers for this launch.
func (r *run) published(peer int) bool {
	return r.bases[peer].known.Load() || r.h.arenas[peer].launch(r.number).number.Load() == r.number+1
}

// resolve looks up a peer's input and output and maps them if needed. The peer must have published them.
func (r *run) resolve(peer int) error {
	r.mapMu.Lock()
	defer r.mapMu.Unlock()
	b := &r.bases[peer]
	if b.known.Load() {
		return nil
	}
	if err := r.compare(peer); err != nil {
		return r.h.x.fail(r.Seq, peer, err)
	}
	rec := r.h.arenas[peer].launch(r.number)
	same := r.h.control.SameProcess[peer]
	for k := range b.buffer {
		d := &rec.buffer[k]
		b.buffer[k] = span{}
		switch {
		case d.kind == bufferNone:
		case same:
			b.buffer[k] = span{pointerBytes(d.address), int64(d.size)}
		case d.kind == bufferShared:
			if b.held[k] == nil {
				var err error
				if b.held[k], err = r.h.x.e.buffers.Hold(peer, d.number, r.mapLimit()); err != nil {
					return r.h.x.fail(r.Seq, peer, fmt.Errorf("map a buffer of rank %d: %w", peer, err))
				}
			}
			at := b.held[k].At(d.offset, int64(d.size))
			if at == 0 {
				err := mismatch("rank %d describes %d bytes at %d, beyond its allocation's end", peer, d.size, d.offset)
				return r.h.x.fail(r.Seq, peer, err)
			}
			b.buffer[k] = span{pointerBytes(at), int64(d.size)}
		}
	}
	if rec.number.Load() != r.number+1 {
		return r.h.x.fail(r.Seq, peer, mismatch("rank %d is launches ahead", peer))
	}
	b.known.Store(true)
	return nil
}

func (r *run) mapLimit() time.Duration {
	if t := r.h.x.e.cfg.OpTimeout; t > 0 {
		return min(mapTimeout, t)
	}
	return mapTimeout
}
