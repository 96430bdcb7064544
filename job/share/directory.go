package share

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/device/host"
	"github.com/goccl/goccl/transport/wire"
)

// directorySlots is the number of live entries per rank; another entry retires the oldest.
const directorySlots = 32

// DirectoryBytes is the size of one rank's table.
const DirectoryBytes = int64(unsafe.Sizeof(table{}))

// table is the part of a Directory that is in memory shared with the peers. Its owner writes it.
type table struct {
	newest atomic.Uint32 // number of the latest entry
	_      [60]byte
	slot   [directorySlots]slot // of entry k: k modulo directorySlots
}

// slot holds an entry. Numbers are never reused: a slot with another number, or 0, means that the owner has retired the
// entry. The owner stores 0, then the body, then the number.
type slot struct {
	number atomic.Uint32
	size   uint32
	body   [504]byte // a Descriptor
}

func (t *table) of(number uint32) *slot { return &t.slot[number%directorySlots] }

// Directory shares the users' buffers of the host device with the ranks of other processes, at their first use. Each
// rank has a table in memory that all ranks have mapped. The owner enters an allocation there (Place) and tells the
// peers its number and an offset, by any means. A peer maps the entry when it meets its number (Learn, Hold). When the
// allocation was freed or revoked, the owner's next Sweep retires the entry, and the peers' next Sweep unmaps it.
//
// Memory that cannot be entered, such as Go memory, has no place.
type Directory struct {
	dev    *host.Device
	rank   int
	tables []*table // by rank

	mu    sync.Mutex // guards the fields below, and writing the own table
	own   []entered  // live, by number
	last  uint32
	freed uint64 // host.Freed at the last Sweep
	peers []peerTable
}

type entered struct {
	number uint32
	region host.Region
	revoke func()
}

// Place is a location in a rank's entry. Number 0 is no place.
type Place struct {
	Number uint32
	Offset uint64
}

// NewDirectory makes the directory of a rank whose peers' tables are mapped at tables, zeroed at first.
func NewDirectory(dev *host.Device, rank int, tables []device.Ptr) *Directory {
	d := &Directory{dev: dev, rank: rank, peers: make([]peerTable, len(tables))}
	for _, p := range tables {
		d.tables = append(d.tables, (*table)(*(*unsafe.Pointer)(unsafe.Pointer(&p))))
	}
	return d
}

// Place returns the place of n bytes at p; it enters the allocation if needed. keep is the number of an entry that must
// stay, or 0. A buffer that peers write to must be one that can be revoked (host.Device.Revoke).
func (d *Directory) Place(p device.Ptr, n int64, keep uint32, written bool) Place {
	region, err := d.dev.Lookup(p)
	if err != nil || !region.Shareable || int64(p-region.Base)+n > region.Size ||
		written && (region.Exported || !region.OwnPages(p, n)) {
		return Place{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.own, func(e entered) bool { return e.region.Unique == region.Unique })
	if i < 0 {
		if !d.enter(region, keep) {
			return Place{}
		}
		i = len(d.own) - 1
	}
	return Place{d.own[i].number, uint64(p - region.Base)}
}

// enter makes an entry. The caller holds mu.
func (d *Directory) enter(region host.Region, keep uint32) bool {
	desc, revoke, err := Export(host.Grantor{Device: d.dev}, region.Base)
	if err != nil {
		return false
	}
	var w wire.Writer
	desc.Put(&w)
	body := w.Seal(recordKind, recordVersion)
	mine := d.tables[d.rank]
	d.last++
	if keep != 0 && d.last%directorySlots == keep%directorySlots {
		d.last++ // there is no entry with the number that is left out: for peers it is a retired one
	}
	s := mine.of(d.last)
	if desc.Handle.Unique != region.Unique || len(body) > len(s.body) {
		revoke()
		return false
	}
	if i := slices.IndexFunc(d.own, func(e entered) bool { return mine.of(e.number) == s }); i >= 0 {
		d.retire(i)
	}
	s.size = uint32(copy(s.body[:], body))
	s.number.Store(d.last)
	mine.newest.Store(d.last)
	d.own = append(d.own, entered{d.last, region, revoke})
	return true
}

// retire removes an own entry. The caller holds mu.
func (d *Directory) retire(i int) {
	e := d.own[i]
	d.tables[d.rank].of(e.number).number.Store(0)
	e.revoke()
	d.own = slices.Delete(d.own, i, i+1)
}

// Sweep retires this rank's entries whose memory was freed or revoked, and unmaps the entries that peers have
// retired and that nothing here holds.
func (d *Directory) Sweep() {
	d.mu.Lock()
	defer d.mu.Unlock()
	freed := host.Freed() // before Lookup
	for i := len(d.own) - 1; i >= 0 && freed != d.freed; i-- {
		want := d.own[i].region
		if now, err := d.dev.Lookup(want.Base); err != nil || now.Unique != want.Unique {
			d.retire(i)
		}
	}
	d.freed = freed
	for r := range d.peers {
		p := &d.peers[r]
		p.maps = slices.DeleteFunc(p.maps, func(h *Held) bool {
			if h.uses > 0 || d.tables[r].of(h.number).number.Load() == h.number {
				return false
			}
			_ = h.mapping.Close()
			return true
		})
	}
}

// Live counts this rank's entries and its mappings of peers' entries.
func (d *Directory) Live() (entries, mappings int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.peers {
		mappings += len(p.maps)
	}
	return len(d.own), mappings
}

// Close retires all entries and unmaps everything. The tables are the caller's.
func (d *Directory) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.own) > 0 {
		d.retire(len(d.own) - 1)
	}
	var errs []error
	for r := range d.peers {
		for _, h := range d.peers[r].maps {
			errs = append(errs, h.mapping.Close())
		}
		d.peers[r].maps = nil
	}
	return errors.Join(errs...)
}

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
	rd := wire.Open(body, recordKind, recordVersion)
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
