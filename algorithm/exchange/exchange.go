// Package exchange maps one allocation of every rank into every other rank. All engines use it for their set-up.
package exchange

import (
	"context"
	"errors"
	"fmt"

	"github.com/goccl/goccl/algorithm"
	"github.com/goccl/goccl/bootstrap"
	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport/ipc"
	"github.com/goccl/goccl/transport/wire"
)

const (
	recordKind    = 0x57 // 'W': a window
	recordVersion = 1
)

// Importer is shared by all communicators of the process, so that an allocation that several of them use is mapped
// once.
var Importer ipc.Importer

// Windows holds one allocation of each rank, as mapped on this rank.
type Windows struct {
	// Ptr is the window of each rank; this rank's own entry is the allocation itself.
	Ptr []device.Ptr
	// SameProcess[r] is true if rank r is in this process.
	SameProcess []bool

	own      device.Allocation
	mappings []*ipc.Mapping
}

// Map allocates size bytes on dev and maps every rank's allocation. It is collective: all ranks pass the same size and
// are on one host. When it returns, every rank has mapped all windows, so any rank may write.
func Map(ctx context.Context, b bootstrap.Bootstrap, dev device.Device, size int64) (*Windows, error) {
	n, rank := b.WorldSize(), b.Rank()
	own, err := dev.Alloc(size)
	if err != nil {
		return nil, fmt.Errorf("window of %d bytes: %w", size, err)
	}
	w := &Windows{Ptr: make([]device.Ptr, n), SameProcess: make([]bool, n), own: own}
	share, revoke, err := ipc.Offer(dev, own.Ptr())
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	defer revoke()
	var rec wire.Writer
	share.Put(&rec)
	all, err := b.AllGather(ctx, rec.Seal(recordKind, recordVersion))
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	for r := range n {
		w.Ptr[r], w.SameProcess[r] = own.Ptr(), true
		if r == rank {
			continue
		}
		if err := w.mapPeer(ctx, dev, r, all[r]); err != nil {
			return nil, errors.Join(&algorithm.Error{Op: "init", Rank: rank, Peer: r, Err: err}, w.Close())
		}
	}
	// Revoke offers and write windows only after all ranks have mapped them.
	if err := b.Barrier(ctx); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *Windows) mapPeer(ctx context.Context, dev device.Device, r int, record []byte) error {
	body, err := wire.Open(record, recordKind, recordVersion)
	if err != nil {
		return err
	}
	share := ipc.GetShare(body)
	if err := body.Done(); err != nil {
		return err
	}
	m, err := Importer.Map(ctx, dev, &share)
	if err != nil {
		return fmt.Errorf("map the window of the peer: %w", err)
	}
	w.mappings = append(w.mappings, m)
	w.Ptr[r], w.SameProcess[r] = m.Ptr, share.Process == ipc.ProcessID
	return nil
}

// Close unmaps the peers' windows and frees this rank's own. If a peer still has it mapped, the physical memory stays
// allocated until the peer unmaps it.
func (w *Windows) Close() error {
	var errs []error
	for _, m := range w.mappings {
		errs = append(errs, m.Close())
	}
	w.mappings = nil
	return errors.Join(append(errs, w.own.Close())...)
}
