package share

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport/wire"
)

const (
	recordKind    = 0x57 // 'W'
	recordVersion = 2
	maxReason     = 1 << 10
)

// The rounds of the protocol; see the package comment.
const (
	roundOffer = iota
	roundVerdict
	rounds
)

// exchange runs the protocol for one part of every rank.
type exchange struct {
	dev        device.Device
	rank, size int
	// gather sends this rank's record of a round and returns those of all ranks.
	gather func(ctx context.Context, round int, record []byte) ([][]byte, error)
	// uniform requires parts of one size.
	uniform bool
}

// part is what a rank offers. reason, if there is one, says why it has no part.
type part struct {
	size   int64
	desc   Descriptor
	reason string
}

// Exchange maps the size bytes at p of every rank into all ranks; size 0 stands for the whole allocation that holds p. It
// is collective; sizes may differ. The memory must not be freed before every rank has closed its Parts.
func Exchange(ctx context.Context, b bootstrap.Bootstrap, dev device.Device, p device.Ptr, size int64) (*Parts, error) {
	return blocking(b, dev).run(ctx, p, size, nil)
}

// blocking makes an exchange whose rounds are collective calls of the bootstrap.
func blocking(b bootstrap.Bootstrap, dev device.Device) *exchange {
	return &exchange{dev: dev, rank: b.Rank(), size: b.WorldSize(),
		gather: func(ctx context.Context, _ int, record []byte) ([][]byte, error) { return b.AllGather(ctx, record) }}
}

// run shares this rank's part, the size bytes at p. useless, if not nil, is why the part cannot be used.
func (x *exchange) run(ctx context.Context, p device.Ptr, size int64, useless error) (*Parts, error) {
	own := part{size: size}
	revoke := func() {}
	err := useless
	if err == nil {
		own.desc, revoke, err = Export(x.dev, p)
	}
	if err == nil {
		defer revoke()
		if size == 0 {
			h := &own.desc.Handle
			p, size, h.Offset = p.Add(-h.Offset), h.Size, 0
			own.size = size
		}
		if room := own.desc.Handle.Size - own.desc.Handle.Offset; room < size {
			err = fmt.Errorf("the allocation ends after %d of the %d bytes", room, size)
		}
	}
	own.reason = reason(err)
	records, gatherErr := x.gather(ctx, roundOffer, own.encode())
	if gatherErr != nil {
		return nil, errors.Join(err, gatherErr)
	}
	parts, err := x.decode(records, err)
	var all *Parts
	if err == nil {
		all, err = x.mapAll(ctx, parts, p)
	}
	var w wire.Writer
	w.Bytes([]byte(reason(err)))
	records, gatherErr = x.gather(ctx, roundVerdict, w.Seal(recordKind, recordVersion))
	if gatherErr != nil {
		err = errors.Join(err, gatherErr)
	}
	for r, rec := range records {
		if err == nil && r != x.rank {
			err = verdict(r, rec)
		}
	}
	if err != nil {
		return nil, errors.Join(err, all.Close())
	}
	return all, nil
}

// reason is the text of an error for other ranks.
func reason(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return text[:min(len(text), maxReason)]
}

func (o *part) encode() []byte {
	var w wire.Writer
	w.U64(uint64(o.size))
	w.Bytes([]byte(o.reason))
	if o.reason == "" {
		o.desc.Put(&w)
	}
	return w.Seal(recordKind, recordVersion)
}

// decode returns the parts of all ranks, or the first reason in the order of the ranks for which there are none; own is
// this rank's.
func (x *exchange) decode(records [][]byte, own error) ([]part, error) {
	parts := make([]part, x.size)
	var first error
	for r, rec := range records {
		body, err := wire.Open(rec, recordKind, recordVersion)
		if err == nil {
			o := &parts[r]
			o.size, o.reason = int64(body.U64()), string(body.Bytes(maxReason))
			if o.reason == "" {
				o.desc = Get(body)
			}
			err = body.Done()
		}
		switch {
		case first != nil:
		case r == x.rank && own != nil:
			first = own
		case err != nil:
			first = blame(r, "%w: rank %d: %w", ErrMismatch, r, err)
		case parts[r].reason != "":
			first = blame(r, "rank %d could not share its memory: %s", r, parts[r].reason)
		case r != x.rank && (parts[r].size <= 0 || parts[r].desc.Handle.Size-parts[r].desc.Handle.Offset < parts[r].size):
			first = blame(r, "%w: rank %d offers %d bytes of an allocation that ends before", ErrMismatch, r, parts[r].size)
		}
	}
	for r := range parts {
		if mine := parts[x.rank].size; x.uniform && parts[r].size != mine { // more specific, and the caller's mistake
			return nil, blame(r, "%w: %d bytes here and %d on rank %d", ErrMismatch, mine, parts[r].size, r)
		}
	}
	return parts, first
}

// verdict returns the error that another rank has met.
func verdict(r int, rec []byte) error {
	body, err := wire.Open(rec, recordKind, recordVersion)
	if err != nil {
		return blame(r, "%w: rank %d: %w", ErrMismatch, r, err)
	}
	text := string(body.Bytes(maxReason))
	if err := body.Done(); err != nil {
		return blame(r, "%w: rank %d: %w", ErrMismatch, r, err)
	}
	if text != "" {
		return blame(r, "rank %d could not map the memory of all ranks: %s", r, text)
	}
	return nil
}
