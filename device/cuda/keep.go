package cuda

import (
	"errors"
	"sync"

	"github.com/goccl/goccl/internal/driver"
)

// In these calls the driver may wait until the GPU is idle: loads of modules and kernels, frees of modules, and all
// allocations and frees except VMM memory. While a kernel waits for a peer, the peer may be in such a call too, and
// both wait for ever. So:
//
//  1. The first communicator of a GPU loads all kernels (SharedModule). They stay until the GPU is closed.
//  2. Host memory of a page comes from a slab and returns to it.
//  3. Larger host memory is kept for the next allocation of its size, until no communicator is left (Hold).

const (
	hostPage  = 4096
	slabPages = 512      // each communicator takes a page, and each engine of its user
	mostKept  = 64 << 20 // larger host memory is freed at once
)

// hostBlock is host memory with both of its addresses.
type hostBlock struct{ host, dev driver.Ptr }

// Hold says that kernels on this GPU may wait for peers until release is called. It returns after a free that has
// begun.
func (d *Device) Hold() (release func() error) {
	g := d.gpu
	g.keep.Lock()
	defer g.keep.Unlock()
	g.holds++
	return sync.OnceValue(func() error {
		g.keep.Lock()
		defer g.keep.Unlock()
		if g.holds--; g.holds > 0 {
			return nil
		}
		return g.freeBlocks()
	})
}

// freeBlocks frees the kept memory, except pages of slabs. The caller holds keep.
func (g *gpu) freeBlocks() error {
	var errs []error
	for size, list := range g.blocks {
		if size > hostPage {
			for _, b := range list {
				errs = append(errs, g.ctx.HostFree(b.host))
			}
			delete(g.blocks, size)
		}
	}
	return errors.Join(errs...)
}

const hostFlags = driver.HostPortable | driver.HostDeviceMap

// hostAlloc returns size bytes of host memory, a multiple of hostPage.
func (g *gpu) hostAlloc(size int64) (b hostBlock, err error) {
	g.keep.Lock()
	if size > hostPage && len(g.blocks[size]) == 0 {
		g.keep.Unlock()
		b.host, b.dev, err = g.ctx.HostAlloc(size, hostFlags)
		return b, err
	}
	defer g.keep.Unlock()
	list := g.blocks[size]
	if len(list) == 0 {
		if b.host, b.dev, err = g.ctx.HostAlloc(slabPages*hostPage, hostFlags); err != nil {
			return b, err
		}
		g.slabs = append(g.slabs, b.host)
		for i := range driver.Ptr(slabPages) {
			list = append(list, hostBlock{b.host + i*hostPage, b.dev + i*hostPage})
		}
	}
	g.blocks[size] = list[:len(list)-1]
	return list[len(list)-1], nil
}

func (g *gpu) hostFree(b hostBlock, size int64) error {
	if size > mostKept {
		return g.ctx.HostFree(b.host)
	}
	g.keep.Lock()
	defer g.keep.Unlock()
	if size > hostPage && g.holds == 0 {
		return g.ctx.HostFree(b.host)
	}
	g.blocks[size] = append(g.blocks[size], b)
	return nil
}

// SharedModule returns the module of that name with the given kernels, which belongs to the GPU. The first call for a
// name loads the module from its image, and the kernels.
func (d *Device) SharedModule(name string, names []string, image func() ([]byte, error)) (*Module, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	g := d.gpu
	g.loading.Lock()
	defer g.loading.Unlock()
	if m := g.modules[name]; m != nil {
		return m, nil
	}
	data, err := image()
	if err != nil {
		return nil, err
	}
	raw, err := g.ctx.LoadModule(data)
	if err != nil {
		return nil, fail(g.ordinal, "load module", err)
	}
	m := &Module{d: d, raw: raw}
	kernels := make(map[string]*Function, len(names))
	for _, k := range names {
		if kernels[k], err = m.Function(k); err != nil {
			return nil, errors.Join(err, g.ctx.UnloadModule(raw))
		}
	}
	m.kernels = kernels
	g.modules[name] = m
	return m, nil
}

// drop frees everything of this file; the context is about to be released.
func (g *gpu) drop() error {
	errs := []error{g.freeBlocks()}
	for _, m := range g.modules {
		errs = append(errs, g.ctx.UnloadModule(m.raw))
	}
	for _, slab := range g.slabs {
		errs = append(errs, g.ctx.HostFree(slab))
	}
	return errors.Join(errs...)
}
