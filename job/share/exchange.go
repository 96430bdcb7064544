package share

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport/wire"
)

const (
	recordKind    = 0x57 // 'W'
	recordVersion = 3
)

// The rounds of the protocol; see the package comment.
const (
	roundOffer = iota
	roundVerdict
	rounds
)

// exchange runs the protocol for one part of every rank.
type exchange struct {
	boot       bootstrap.Bootstrap
	dev        device.Device
	rank, size int
	// gather sends this rank's record of a round and returns the records of all ranks.
	gather func(ctx context.Context, round int, record []byte) ([][]byte, error)
	// uniform requires parts of one size.
	uniform bool
	// disjoint requires windows that do not overlap on a rank.
	disjoint bool
	// flat, if not 0, is the unit of the distance between the parts.
	flat int64
	// host says that the parts are memory of the host, which dev maps.
	host bool
	// fixed makes the parts flat where their addresses can be kept while they are suspended.
	fixed bool
	// partial says that an empty record is of a rank that has left and has no part.
	partial bool
	// bound, if not nil, derives the context of a wait for a window, which ends with the cause when a peer aborts.
	bound func(context.Context) (context.Context, func())
	// again are suspended parts, which take the place of new ones.
	again *Parts
}

// part is what a rank offers. err, if not nil, is why it has no part.
type part struct {
	ptr    device.Ptr // at the owner
	size   int64      // 0: the rank has left
	desc   Descriptor
	err    error
	revoke func() // of this rank's own part, nil if it was not exported
}

func (o *part) absent() bool { return o.size == 0 }

// offer exports the size bytes at p, or the whole allocation if size is 0. useless, if not nil, is why the memory
// cannot be shared.
func offer(dev Exporter, p device.Ptr, size int64, useless error) *part {
	o := &part{ptr: p, size: size, err: useless}
	if o.err == nil {
		o.desc, o.revoke, o.err = Export(dev, p)
	}
	h := &o.desc.Handle
	switch {
	case o.err != nil:
	case size == 0:
		o.ptr, o.size, h.Offset = p.Add(-h.Offset), h.Size, 0
	case h.Size-h.Offset < size:
		o.err = fmt.Errorf("the allocation ends after %d of the %d bytes", h.Size-h.Offset, size)
	}
	return o
}

// Exchange maps the size bytes at p of every rank into all ranks; size 0 stands for the whole allocation that holds p.
// It is collective; sizes may differ. The memory must not be freed before every rank has closed its Parts.
func Exchange(ctx context.Context, b bootstrap.Bootstrap, dev device.Device, p device.Ptr, size int64,
	options ...Option) (*Parts, error) {
	return blocking(b, dev, options).run(ctx, offer(dev, p, size, nil))
}

// blocking makes an exchange whose rounds are collective calls of the bootstrap.
func blocking(b bootstrap.Bootstrap, dev device.Device, options []Option) *exchange {
	x := &exchange{boot: b, dev: dev, rank: b.Rank(), size: b.WorldSize()}
	x.gather = func(ctx context.Context, _ int, record []byte) ([][]byte, error) { return b.AllGather(ctx, record) }
	for _, o := range options {
		o(x)
	}
	return x
}

// run shares this rank's part.
func (x *exchange) run(ctx context.Context, own *part) (*Parts, error) {
	if own.revoke != nil {
		defer own.revoke()
	}
	records, err := x.gather(ctx, roundOffer, own.encode())
	if err != nil {
		return nil, errors.Join(own.err, err)
	}
	var all *Parts
	parts, err := x.decode(records, own)
	if err == nil {
		all, err = x.mapAll(ctx, parts)
	}
	var w wire.Writer
	putReason(&w, err)
	records, gatherErr := x.gather(ctx, roundVerdict, w.Seal(recordKind, recordVersion))
	err = errors.Join(err, gatherErr)
	for r, rec := range records {
		if err == nil && r != x.rank && !x.absent(rec) {
			err = x.verdict(r, rec)
		}
	}
	switch {
	case err == nil:
		return all, nil
	case x.again != nil:
		return nil, errors.Join(err, x.again.suspend())
	}
	return nil, errors.Join(err, all.Close())
}

// absent reports whether a record is of a rank that has left.
func (x *exchange) absent(record []byte) bool { return x.partial && len(record) == 0 }

// name is the number of a rank in errors.
func (x *exchange) name(r int) int { return bootstrap.NameOf(x.boot, r) }

func (o *part) encode() []byte {
	var w wire.Writer
	w.U64(uint64(o.size))
	putReason(&w, o.err)
	if o.err == nil {
		o.desc.Put(&w)
	}
	return w.Seal(recordKind, recordVersion)
}

// decode returns the parts of all ranks, or the first reason in the order of the ranks for which there are none.
func (x *exchange) decode(records [][]byte, own *part) ([]part, error) {
	parts := make([]part, x.size)
	var first error
	for r, rec := range records {
		o := &parts[r]
		if r == x.rank {
			*o = *own
			first = cmp.Or(first, own.err)
			continue
		}
		if x.absent(rec) {
			continue
		}
		body := wire.Open(rec, recordKind, recordVersion)
		o.size = int64(body.U64())
		if _, o.err = getReason(body); o.err == nil {
			o.desc = Get(body)
		}
		err := body.Done()
		switch h, r := &o.desc.Handle, x.name(r); {
		case err != nil:
			return nil, blame(r, "%w: rank %d: %w", fault.ErrMismatch, r, err)
		case o.err != nil:
			err = blame(r, "rank %d could not share its memory: %w", r, o.err)
		case o.size <= 0 || h.Size-h.Offset < o.size:
			err = blame(r, "%w: rank %d offers %d bytes of an allocation that ends before", fault.ErrMismatch, r, o.size)
		}
		first = cmp.Or(first, err)
	}
	for r := range parts {
		if x.uniform && parts[r].size != own.size && !x.absent(records[r]) { // the caller's mistake, so it goes first
			return nil, blame(x.name(r), "%w: %d bytes here and %d on rank %d", fault.ErrMismatch, own.size, parts[r].size,
				x.name(r))
		}
	}
	return parts, first
}

// verdict returns the error that another rank has met. The error blames that rank, or a third one, whose process it
// has found gone.
func (x *exchange) verdict(r int, rec []byte) error {
	r = x.name(r)
	body := wire.Open(rec, recordKind, recordVersion)
	gone, reason := getReason(body)
	if err := body.Done(); err != nil {
		return blame(r, "%w: rank %d: %w", fault.ErrMismatch, r, err)
	}
	if reason == nil {
		return nil
	}
	culprit := r
	for p := range x.size {
		if p != x.rank && x.name(p) == gone {
			culprit = gone
		}
	}
	return blame(culprit, "%w of all ranks on rank %d: %w", ErrNotMapped, r, reason)
}
