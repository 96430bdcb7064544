package share

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/transport/wire"
)

// peerTable is what this rank has mapped of a peer's table.
type peerTable struct {
	known  uint32 // entries up to this number are mapped or retired
	failed bool   // known no longer grows
	maps   []*Held
}

// Held is an entry of a peer that is mapped here.
type Held struct {
	number  uint32
	size    int64
	mapping *Mapping // starts at the first byte of the allocation
	uses    int      // guarded by Directory.mu
}

var errRetired = errors.New("its owner has retired it")

// Learn maps the entries that rank r has added since the last call. After a failure no more of them are mapped. It
// returns the number up to which they are mapped or retired.
func (d *Directory) Learn(ctx context.Context, r int) uint32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	p := &d.peers[r]
	for newest := d.tables[r].newest.Load(); r != d.rank && !p.failed && p.known != newest; {
		_, err := d.load(ctx, r, p.known+1)
		if p.failed = err != nil && !errors.Is(err, errRetired); !p.failed {
			p.known++
		}
	}
	return p.known
}

// Known returns the result of the last Learn.
func (d *Directory) Known(r int) uint32 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.peers[r].known
}

// At is the address here of n bytes at a place of rank r, or 0 if it is not mapped. It is valid until Sweep or Close.
func (d *Directory) At(r int, at Place, n int64) device.Ptr {
	d.mu.Lock()
	defer d.mu.Unlock()
	if h := d.find(r, at.Number); h != nil {
		return h.At(at.Offset, n)
	}
	return 0
}

// Hold returns an entry of rank r. It maps the entry if needed, within a limit. The entry stays mapped until Release.
func (d *Directory) Hold(r int, number uint32, limit time.Duration) (*Held, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := d.find(r, number)
	if h == nil {
		ctx, stop := context.WithTimeout(context.Background(), limit)
		defer stop()
		var err error
		if h, err = d.load(ctx, r, number); err != nil {
			return nil, err
		}
	}
	h.uses++
	return h, nil
}

// Release ends a Hold.
func (d *Directory) Release(h *Held) {
	d.mu.Lock()
	h.uses--
	d.mu.Unlock()
}

// At is the address here of n bytes at an offset, or 0 if they are not all in the allocation.
func (h *Held) At(offset uint64, n int64) device.Ptr {
	if n < 0 || offset > uint64(h.size) || n > h.size-int64(offset) {
		return 0
	}
	return h.mapping.Ptr.Add(int64(offset))
}

// find returns a mapped entry or nil. The caller holds mu.
func (d *Directory) find(r int, number uint32) *Held {
	maps := d.peers[r].maps
	if i := slices.IndexFunc(maps, func(h *Held) bool { return h.number == number }); i >= 0 {
		return maps[i]
	}
	return nil
}

// load maps an entry of rank r. The caller holds mu.
func (d *Directory) load(ctx context.Context, r int, number uint32) (*Held, error) {
	s := d.tables[r].of(number)
	if s.number.Load() != number {
		return nil, fmt.Errorf("entry %d: %w", number, errRetired)
	}
	body := slices.Clone(s.body[:min(int(s.size), len(s.body))])
	h, err := d.open(ctx, body)
	if err != nil {
		if s.number.Load() != number {
			err = errRetired // the owner wrote the slot meanwhile
		}
		return nil, fmt.Errorf("entry %d: %w", number, err)
	}
	h.number = number
	d.peers[r].maps = append(d.peers[r].maps, h)
	return h, nil
}

func (d *Directory) open(ctx context.Context, body []byte) (*Held, error) {
	rd, err := wire.Open(body, recordKind, recordVersion)
	if err != nil {
		return nil, err
	}
	desc := Get(rd)
	if err := rd.Done(); err != nil {
		return nil, err
	}
	if desc.Handle.Offset != 0 {
		return nil, fmt.Errorf("%w: an entry begins %d bytes into its allocation", wire.ErrFormat, desc.Handle.Offset)
	}
	m, err := Map(ctx, d.dev, &desc)
	if err != nil {
		return nil, err
	}
	return &Held{size: desc.Handle.Size, mapping: m}, nil
}
