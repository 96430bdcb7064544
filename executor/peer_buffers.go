package executor

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/goccl/goccl/device"
)

// rankBuffers holds the addresses of a rank's planes in this launch.
type rankBuffers struct {
	known  atomic.Bool // input and output are resolved; always set for this rank's own
	buffer [2]span
	// held are the mappings behind buffer, from this launch or an earlier one. The next launch usually needs the same
	// ones. They count as in use, so they stay mapped, until a launch uses another allocation.
	held [2]*mapped
}

// describe fills in the record from which peers find a buffer.
func (r *run) describe(rec *bufferRecord, k int, p device.Ptr, size int64) {
	rec.kind = bufferNone
	if p == 0 || size == 0 || !r.h.x.program.touched[k] {
		return
	}
	rec.kind, rec.address, rec.size = bufferLocal, uint64(p), uint64(size)
	if r.h.local {
		return
	}
	if o, at, ok := r.h.x.e.shares.describe(p); ok {
		rec.kind, rec.unique, rec.offset = bufferShared, o.unique, uint64(at)
		rec.share = uint32(copy(rec.shared[:], o.record))
	}
}

// published reports whether a peer has published its buffers for this launch.
func (r *run) published(peer int) bool {
	return r.bases[peer].known.Load() || r.h.windows[peer].launch(r.number).number.Load() == r.number+1
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
	rec := r.h.windows[peer].launch(r.number)
	same := r.h.control.SameProcess[peer]
	for k := range b.buffer {
		d := &rec.buffer[k]
		b.buffer[k] = span{}
		switch {
		case d.kind == bufferNone:
		case same:
			b.buffer[k] = span{pointerBytes(d.address), int64(d.size)}
		case d.kind == bufferShared && d.share <= maxShare:
			m := b.held[k]
			if m == nil || m.unique != d.unique {
				var err error
				if m, err = r.reach(peer, d); err != nil {
					return r.h.x.fail(r.Seq, peer, fmt.Errorf("map a buffer of rank %d: %w", peer, err))
				}
				if b.held[k] != nil {
					r.h.x.e.shares.done(b.held[k])
				}
				b.held[k] = m
			}
			if d.offset > uint64(m.size) || d.size > uint64(m.size)-d.offset {
				return r.h.x.fail(r.Seq, peer, mismatch("rank %d describes %d bytes at %d of an allocation of %d", peer, d.size, d.offset, m.size))
			}
			b.buffer[k] = span{pointerBytes(m.mapping.Ptr.Add(int64(d.offset))), int64(d.size)}
		}
	}
	if rec.number.Load() != r.number+1 {
		return r.h.x.fail(r.Seq, peer, mismatch("rank %d is launches ahead", peer))
	}
	b.known.Store(true)
	return nil
}

func (r *run) reach(peer int, d *bufferRecord) (*mapped, error) {
	limit := mapTimeout
	if t := r.h.x.e.timeout; t > 0 {
		limit = min(limit, t)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return r.h.x.e.shares.reach(ctx, peer, d.unique, d.shared[:d.share])
}
