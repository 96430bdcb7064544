package share

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/goccl/goccl/device"
	"github.com/goccl/goccl/internal/fault"
	"github.com/goccl/goccl/job/bootstrap"
	"github.com/goccl/goccl/transport/wire"
)

// Suspended memory keeps its addresses, so graphs that were captured before work again after the resumption:
//
//  1. No rank has work. Every rank unmaps the parts of its peers; the addresses stay reserved.
//  2. An arena frees its memory, and allocates it anew before step 3.
//  3. The ranks exchange their parts again (exchange), and map them at the addresses of before.
//
// Mappings of cudaMalloc memory, of memory of this process, and of the host device stay: their addresses cannot be
// chosen, or nothing needs them to go.

// rest says that this user has no work until wake. When all users of a mapping rest, it is unmapped.
func (m *Mapping) rest() error {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if !m.resting {
		m.resting = true
		m.e.idle++
	}
	r, fixed := m.e.alloc.(device.Reservation)
	if !fixed || m.e.gone || m.e.idle < m.e.refs {
		return nil
	}
	m.e.gone = true
	return r.Unmap()
}

// wake maps the allocation that d describes, which its owner may have made anew, at the old address.
func (m *Mapping) wake(ctx context.Context, d *Descriptor) error {
	cache.mu.Lock()
	defer cache.mu.Unlock()
	if m.e.gone {
		h, done, err := fetch(ctx, d)
		if err != nil {
			return err
		}
		defer done()
		if err := m.e.alloc.(device.Reservation).Map(0, h); err != nil {
			return err
		}
		m.e.gone = false
	}
	if m.resting {
		m.resting = false
		m.e.idle--
	}
	return nil
}

// fixed reports whether the addresses are reserved.
func (p *Parts) fixed() bool { return p != nil && p.flat != nil }

// suspend unmaps the parts; the addresses stay.
func (p *Parts) suspend() error {
	if p.flat != nil {
		return p.flat.Unmap()
	}
	var errs []error
	for _, m := range p.mappings {
		errs = append(errs, m.rest())
	}
	return errors.Join(errs...)
}

// resume maps the parts that suspend has unmapped.
func (p *Parts) resume(ctx context.Context, x *exchange, parts []part) error {
	if p.flat != nil {
		return x.placeAll(ctx, p, parts)
	}
	k := 0
	for r := range parts {
		if r == x.rank && !x.host || parts[r].absent() {
			continue
		}
		if err := p.mappings[k].wake(ctx, &parts[r].desc); err != nil {
			return blame(x.name(r), "%w of rank %d: %w", ErrNotMapped, x.name(r), err)
		}
		k++
	}
	return nil
}

// arenas holds the open arenas of this process whose addresses are reserved, by bootstrap group.
var arenas = struct {
	mu sync.Mutex
	of map[bootstrap.Bootstrap]*arenaList
}{of: map[bootstrap.Bootstrap]*arenaList{}}

type arenaList struct {
	made int // the number of the next arena, the same on all ranks
	open []*Arena
}

// enter makes SuspendArenas find a.
func (a *Arena) enter() {
	arenas.mu.Lock()
	defer arenas.mu.Unlock()
	l := arenas.of[a.x.boot]
	if l == nil {
		l = new(arenaList)
		arenas.of[a.x.boot] = l
	}
	a.number, a.entered = l.made, true
	l.made++
	l.open = append(l.open, a)
}

// leave undoes enter.
func (a *Arena) leave() {
	if !a.entered {
		return
	}
	arenas.mu.Lock()
	defer arenas.mu.Unlock()
	if l := arenas.of[a.x.boot]; l != nil {
		if l.open = slices.DeleteFunc(l.open, func(o *Arena) bool { return o == a }); len(l.open) == 0 {
			delete(arenas.of, a.x.boot)
		}
	}
}

func arenasOf(b bootstrap.Bootstrap) []*Arena {
	arenas.mu.Lock()
	defer arenas.mu.Unlock()
	if l := arenas.of[b]; l != nil {
		return slices.Clone(l.open)
	}
	return nil
}

// rest unmaps the memory of all ranks.
func (a *Arena) rest() error {
	a.resting = true
	return a.suspend()
}

// SuspendArenas unmaps all arenas of a bootstrap group whose addresses are reserved. Their memory and its contents
// stay, unless Suspend has freed them.
func SuspendArenas(b bootstrap.Bootstrap) (err error) {
	for _, a := range arenasOf(b) {
		err = errors.Join(err, a.rest())
	}
	return err
}

// ResumeArenas maps those again that no Resume has mapped. It is collective.
func ResumeArenas(ctx context.Context, b bootstrap.Bootstrap) error {
	list := slices.DeleteFunc(arenasOf(b), func(a *Arena) bool { return !a.resting })
	var numbers []int
	for _, a := range list {
		numbers = append(numbers, a.number)
	}
	common, err := everywhere(ctx, b, numbers)
	for _, a := range list {
		if err == nil && common(a.number) {
			err = a.Resume(ctx)
		}
	}
	return err
}

// everywhere reports which numbers all ranks have. It is collective.
func everywhere(ctx context.Context, b bootstrap.Bootstrap, mine []int) (func(int) bool, error) {
	var w wire.Writer
	w.U32(uint32(len(mine)))
	for _, n := range mine {
		w.U32(uint32(n))
	}
	records, err := b.AllGather(ctx, w.Seal(recordKind, recordVersion))
	if err != nil {
		return nil, err
	}
	count := map[int]int{}
	for r, record := range records {
		body := wire.Open(record, recordKind, recordVersion)
		for range min(int(body.U32()), len(record)/4) {
			count[int(body.U32())]++
		}
		if err := body.Done(); err != nil {
			r = bootstrap.NameOf(b, r)
			return nil, blame(r, "%w: rank %d: %w", fault.ErrMismatch, r, err)
		}
	}
	return func(n int) bool { return count[n] == len(records) }, nil
}

// Fixed reports whether Suspend can free the memory: the addresses are reserved.
func (a *Arena) Fixed() bool { return a.fixed() }

// Suspend unmaps the memory of all ranks and frees this rank's. The arena is Fixed. No rank has work, and all ranks
// suspend.
func (a *Arena) Suspend() error {
	err := errors.Join(a.rest(), device.CloseAll(a.own))
	a.own = nil
	return err
}

// Resume maps the memory of all ranks at the same addresses. Memory that was freed is zero again. It is collective;
// when it returns, every rank has mapped everything.
func (a *Arena) Resume(ctx context.Context) (err error) {
	if a.own == nil {
		if a.own, err = a.alloc(); err != nil {
			a.own, err = nil, fmt.Errorf("arena of %d bytes: %w", a.size, err)
		}
	}
	var p device.Ptr
	if a.own != nil {
		p = a.own.Ptr()
	}
	x := *a.x
	x.again = a.Parts
	parts, err := x.run(ctx, offer(a.owner, p, a.size, err))
	if err == nil {
		a.Parts, a.resting = parts, false
	}
	return err
}

// usable lists this rank's windows with parts by number, once their exchanges are over.
func (g *Windows) usable(ctx context.Context) (list []*Window, numbers []int, err error) {
	g.mu.Lock()
	list = slices.SortedFunc(maps.Values(g.byNumber), func(a, b *Window) int { return a.number - b.number })
	g.mu.Unlock()
	for _, w := range list {
		select {
		case <-w.decided:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
	}
	list = slices.DeleteFunc(list, func(w *Window) bool { return w.parts == nil || w.closed })
	for _, w := range list {
		numbers = append(numbers, w.number)
	}
	return list, numbers, nil
}

// Suspend unmaps the windows. No rank has work, and all ranks suspend. Suspend and Resume accept a nil receiver.
func (g *Windows) Suspend(ctx context.Context) error {
	if g == nil || g.dev.ID().Kind != device.CUDA {
		return nil
	}
	list, _, err := g.usable(ctx)
	for _, w := range list {
		err = errors.Join(err, w.parts.suspend())
	}
	return err
}

// Resume maps the windows at the same addresses, except windows that a rank has closed. It is collective. The memory of
// the windows is their users', who have not freed it.
func (g *Windows) Resume(ctx context.Context) error {
	if g == nil || g.dev.ID().Kind != device.CUDA {
		return nil
	}
	list, numbers, err := g.usable(ctx)
	common, e := everywhere(ctx, g.boot, numbers)
	err = errors.Join(err, e)
	for _, w := range list {
		if err == nil && common(w.number) {
			x := g.shape
			x.gather, x.again = blocking(g.boot, g.dev, nil).gather, w.parts
			_, err = x.run(ctx, offer(g.dev, w.base, w.bytes, nil))
		}
	}
	return err
}
