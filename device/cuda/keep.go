package cuda

import (
	"errors"
	"sync"

	"github.com/goccl/goccl/internal/driver"
)

// In these calls the driver may wait until the GPU is idle: loads of modules and kernels, frees of modules, and all
// allocations and frees except VMM memory. While a kernel waits for a peer, the peer may be in such a call too, and both
// wait for ever. So:
//
//  1. The first communicator of a GPU loads all kernels (SharedModule). They stay until the GPU is closed.
//  2. Host memory of a page comes from a slab and returns to it.
//  3. Other memory that is freed while communicators exist (Hold) is freed after the last of them.

// slabPages is the number of pages of a slab: each communicator and each engine of its user takes one.
const slabPages = 512

const hostPage = 4096

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
		var errs []error
		for _, free := range g.later {
			errs = append(errs, free())
		}
		g.later = nil
		return errors.Join(errs...)
	})
}

// whenIdle calls free when no kernel can wait for a peer.
func (g *gpu) whenIdle(free func() error) error {
	g.keep.Lock()
	defer g.keep.Unlock()
	if g.holds == 0 {
		return free()
	}
	g.later = append(g.later, free)
	return nil
}

// hostAlloc returns size bytes of host memory, and free.
func (g *gpu) hostAlloc(size int64) (b hostBlock, free func() error, err error) {
	const flags = driver.HostPortable | driver.HostDeviceMap
	if size > hostPage {
		b.host, b.dev, err = g.ctx.HostAlloc(size, flags)
		return b, func() error { return g.whenIdle(func() error { return g.ctx.HostFree(b.host) }) }, err
	}
	g.keep.Lock()
	defer g.keep.Unlock()
	if len(g.pages) == 0 {
		if b.host, b.dev, err = g.ctx.HostAlloc(slabPages*hostPage, flags); err != nil {
			return b, nil, err
		}
		g.slabs = append(g.slabs, b.host)
		for i := slabPages - 1; i >= 0; i-- {
			at := driver.Ptr(i * hostPage)
			g.pages = append(g.pages, hostBlock{b.host + at, b.dev + at})
		}
	}
	b = g.pages[len(g.pages)-1]
	g.pages = g.pages[:len(g.pages)-1]
	return b, func() error {
		g.keep.Lock()
		defer g.keep.Unlock()
		g.pages = append(g.pages, b)
		return nil
	}, nil
}

// SharedModule returns the module of an image with the given kernels, which belongs to the GPU. The first call for an
// image loads the module and the kernels.
func (d *Device) SharedModule(image []byte, names []string) (*Module, error) {
	if err := d.open(); err != nil {
		return nil, err
	}
	g := d.gpu
	g.loading.Lock()
	defer g.loading.Unlock()
	if m := g.modules[&image[0]]; m != nil {
		return m, nil
	}
	raw, err := g.ctx.LoadModule(image)
	if err != nil {
		return nil, fail(g.ordinal, "load module", err)
	}
	m := &Module{d: d, raw: raw}
	kernels := make(map[string]*Function, len(names))
	for _, name := range names {
		if kernels[name], err = m.Function(name); err != nil {
			return nil, errors.Join(err, g.ctx.UnloadModule(raw))
		}
	}
	m.kernels = kernels
	g.modules[&image[0]] = m
	return m, nil
}

// drop frees what is kept; the context is about to be released.
func (g *gpu) drop() error {
	var errs []error
	for _, m := range g.modules {
		errs = append(errs, g.ctx.UnloadModule(m.raw))
	}
	for _, slab := range g.slabs {
		errs = append(errs, g.ctx.HostFree(slab))
	}
	for _, free := range g.later {
		errs = append(errs, free())
	}
	g.modules, g.slabs, g.pages, g.later = nil, nil, nil, nil
	return errors.Join(errs...)
}
